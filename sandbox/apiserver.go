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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
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

// newAPIServer returns kube-apiserver on the sandbox's listener, with requests passing
// the holds. It is ready when the scheduler has its rights.
func newAPIServer(s *Sandbox) *part.Lasting {
	return &part.Lasting{
		Name: "kube-apiserver", Failed: s.fail,
		Setup: func(ctx context.Context) (run func() error, err error) {
			store := storeURL(s.dir)
			o, err := apiServerOptions(s.dir, store.String(), s.listener, s.ca)
			if err != nil {
				return nil, err
			}
			if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
				return nil, fmt.Errorf("apply feature gates: %w", err)
			}
			completed, err := o.Complete(ctx)
			if err != nil {
				return nil, fmt.Errorf("complete options: %w", err)
			}
			if errs := completed.Validate(); len(errs) > 0 {
				return nil, utilerrors.NewAggregate(errs)
			}
			return func() error { return runAPIServer(ctx, completed, &s.holds) }, nil
		},
		Ready: func(ctx context.Context) error {
			if err := waitReady(ctx, s.client, s.failed); err != nil {
				return err
			}
			return permitScheduler(ctx, s)
		},
	}
}

// readyLimit bounds how long the API server may take to become ready.
const readyLimit = 5 * time.Minute

// waitReady waits until the API server is ready and pods can be created. It
// does so even if the context is cancelled: an API server that is stopped
// before it is ready ends the process.
func waitReady(ctx context.Context, client kubernetes.Interface, failed <-chan error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyLimit)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-failed:
			return false, err
		default:
		}
		if _, last = client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); last != nil {
			return false, nil
		}
		_, last = client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return last == nil, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("%w; its last answer: %w", err, last)
	}
	return err
}

// runAPIServer builds kube-apiserver and runs it. What serves all of its APIs is
// wrapped on the inside: there a request has its user, may do what it wants to, and
// nothing is done yet.
func runAPIServer(ctx context.Context, o options.CompletedOptions, h *Holds) error {
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
