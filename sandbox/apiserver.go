// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"

	"kerf.dev/kerf/sandbox/part"
)

// disabledAdmission are admission plugins that need a part of a cluster which
// a sandbox does not have.
var disabledAdmission = []string{
	// Mounts a token that only a kubelet could deliver, and refuses pods until
	// the controller has created the namespace's default service account.
	"ServiceAccount",
	// Taints new nodes until the node lifecycle controller, which a sandbox
	// does not run, has seen their heartbeat.
	"TaintNodesByCondition",
}

// apiServerOptions is what kube-apiserver's flags would say.
func apiServerOptions(dir, endpoint string, listener net.Listener, ca *authority) (*options.ServerRunOptions, error) {
	serving, err := ca.serving()
	if err != nil {
		return nil, err
	}
	certFile, keyFile := filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key")
	if err := serving.write(certFile, keyFile); err != nil {
		return nil, err
	}
	signingKeyFile := filepath.Join(dir, "service-account.key")
	if err := writeSigningKey(signingKeyFile); err != nil {
		return nil, err
	}
	clientCA, err := dynamiccertificates.NewStaticCAContent("client-ca", ca.pem)
	if err != nil {
		return nil, fmt.Errorf("client certificate authority: %w", err)
	}

	globals, err := serverGlobals()
	if err != nil {
		return nil, err
	}

	o := options.NewServerRunOptions()
	o.GenericServerRunOptions.ComponentGlobalsRegistry = globals
	o.SecureServing.Listener = listener
	o.SecureServing.BindAddress = net.IPv4(127, 0, 0, 1)
	o.SecureServing.ExternalAddress = net.IPv4(127, 0, 0, 1)
	o.SecureServing.ServerCert.CertKey.CertFile = certFile
	o.SecureServing.ServerCert.CertKey.KeyFile = keyFile
	o.Authentication.Anonymous.Allow = false
	o.Authentication.ClientCert.CAContentProvider = clientCA
	o.Authentication.ServiceAccounts.Issuers = []string{"https://kubernetes.default.svc"}
	o.Authentication.ServiceAccounts.KeyFiles = []string{signingKeyFile}
	o.ServiceAccountSigningKeyFile = signingKeyFile
	o.Authorization.Modes = []string{"RBAC"}
	o.Admission.GenericAdmission.DisablePlugins = disabledAdmission

	o.Etcd.StorageConfig.Transport.ServerList = []string{endpoint}
	o.APIEnablement.RuntimeConfig = servedVersions()
	o.ServiceClusterIPRanges = "10.0.0.0/16"
	// Nothing outside the process reaches the API server through the
	// "kubernetes" service, and one user needs no fair queuing.
	o.EndpointReconcilerType = string(reconcilers.NoneEndpointReconcilerType)
	o.Features.EnablePriorityAndFairness = false
	o.Features.EnableProfiling = false
	// Watches of kubectl are ended, not waited for.
	o.GenericServerRunOptions.ShutdownWatchTerminationGracePeriod = time.Second
	return o, nil
}

// startAPIServer starts kube-apiserver on the listener, with requests passing the
// holds. The API is not ready when it returns; see Sandbox.waitReady.
func startAPIServer(ctx context.Context, o *options.ServerRunOptions, h *holds, failed func(error)) (*part.Component, error) {
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, fmt.Errorf("kube-apiserver: apply feature gates: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	completed, err := o.Complete(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("kube-apiserver: complete options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		cancel()
		return nil, fmt.Errorf("kube-apiserver: %w", utilerrors.NewAggregate(errs))
	}
	return part.Run("kube-apiserver", cancel, failed, func() error { return runAPIServer(ctx, completed, h) }), nil
}

// runAPIServer builds kube-apiserver and runs it. What serves all of its APIs is
// wrapped on the inside: there a request has its user, may do what it wants to, and
// nothing is done yet.
func runAPIServer(ctx context.Context, o options.CompletedOptions, h *holds) error {
	name, err := cache.NewInformerName("kube-apiserver")
	if err != nil {
		return err
	}
	o.InformerName = name
	config, err := app.NewConfig(o)
	if err != nil {
		return err
	}
	outermost := config.Aggregator.GenericConfig
	build := outermost.BuildHandlerChainFunc
	outermost.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		return build(h.filter(api), c)
	}
	completed, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := app.CreateServerChain(completed)
	if err != nil {
		return err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}

// writeSigningKey writes the key that signs service account tokens.
func writeSigningKey(path string) error {
	pem, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("generate the service account signing key: %w", err)
	}
	if err := keyutil.WriteKey(path, pem); err != nil {
		return fmt.Errorf("write the service account signing key: %w", err)
	}
	return nil
}

// servedVersions is the API server's runtime configuration: every version of
// resource.k8s.io and scheduling.k8s.io is served, alpha ones too.
func servedVersions() map[string]string {
	served := map[string]string{}
	for _, group := range []string{resource.GroupName, scheduling.GroupName} {
		for _, version := range legacyscheme.Scheme.PrioritizedVersionsForGroup(group) {
			served[version.String()] = "true"
		}
	}
	return served
}
