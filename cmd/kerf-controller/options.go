// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // log format JSON
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"kerf.dev/kerf/api/fabric/v1alpha1"
)

// leaseName is the name of the Lease by which the active one is elected.
const leaseName = "kerf-controller"

// inputError is an error that the user has to correct. The process ends with exit
// code 2.
type inputError struct{ error }

func (e *inputError) Unwrap() error { return e.error }

type options struct {
	kubeconfig     string
	metricsAddress string
	healthAddress  string
	certificates   string
	leaderElect    bool
	leaseNamespace string
	logs           *logsapi.LoggingConfiguration
}

func newOptions() *options { return &options{logs: logsapi.NewLoggingConfiguration()} }

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "Path of a kubeconfig file. If empty: $KUBECONFIG, ~/.kube/config, or the service account of the pod.")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", "127.0.0.1:8443",
		"Address to serve metrics on, with TLS. The API server authenticates and authorizes clients. 0 serves none.")
	flags.StringVar(&o.healthAddress, "health-probe-bind-address", "127.0.0.1:8081", "Address to serve /healthz and /readyz on. 0 serves none.")
	flags.StringVar(&o.certificates, "metrics-cert-dir", "",
		"Directory with tls.crt and tls.key for metrics. If empty, the controller makes a self-signed certificate.")
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "Be active only while elected. Turn it off only if there is one replica: two active ones undo each other's work.")
	flags.StringVar(&o.leaseNamespace, "leader-elect-namespace", "", "Namespace of the Lease for the election. If empty, the namespace of the pod.")
	logsapi.AddFlags(o.logs, flags)
}

func noArguments(args []string) error {
	if len(args) > 0 {
		return &inputError{fmt.Errorf("unexpected argument %q: there are flags only", args[0])}
	}
	return nil
}

// check finds mistakes in flags before anything is started.
func (o *options) check() error {
	for flag, address := range map[string]string{"metrics-bind-address": o.metricsAddress, "health-probe-bind-address": o.healthAddress} {
		if err := checkAddress(address); err != nil {
			return &inputError{fmt.Errorf("--%s: %w", flag, err)}
		}
	}
	return nil
}

func checkAddress(address string) error {
	if address == "0" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q: want host:port, such as 127.0.0.1:8443, or 0", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q: port %q is no number up to 65535", address, port)
	} else if n == 0 {
		return fmt.Errorf("%q: port 0 would be any; name one", address)
	}
	return nil
}

// config is how to reach the API server.
func (o *options) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, &inputError{fmt.Errorf("--kubeconfig: %w", err)}
	}
	return config, nil
}

// manager makes what runs the controllers.
func (o *options) manager() (ctrl.Manager, error) {
	logs.InitLogs()
	if err := o.check(); err != nil {
		return nil, err
	}
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	if err := logsapi.ValidateAndApply(o.logs, nil); err != nil {
		return nil, &inputError{err}
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		Cache:  cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Metrics: metricsserver.Options{
			BindAddress: o.metricsAddress, SecureServing: true, CertDir: o.certificates,
			FilterProvider: filters.WithAuthenticationAndAuthorization,
		},
		HealthProbeBindAddress:        o.healthAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.leaseNamespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("ping", healthz.Ping)
}
