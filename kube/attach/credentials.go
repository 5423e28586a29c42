// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish"
)

// credentials are a user name and a password, and which version of the Secret they
// are from. They are empty for a service that asks for none.
type credentials struct {
	username, password string
	// authority are the certificates that the service's must be signed by, if the Secret
	// says that.
	authority []byte
	version   string
}

// unboundError says that a Secret may not be sent where a Fabric wants it to be. Who
// may write Fabrics need not be permitted to read Secrets.
type unboundError struct{ what string }

func (e *unboundError) Error() string { return e.what }

// readCredentials reads the one Secret that the Fabric names, past all caches: a
// cache would need the right to list and watch all Secrets of a namespace.
func readCredentials(ctx context.Context, live client.Reader, f *v1alpha1.Fabric) (credentials, error) {
	ref := f.Spec.Redfish.CredentialsSecretRef
	if ref == nil {
		return credentials{}, nil
	}
	secret := &corev1.Secret{}
	if err := live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret); err != nil {
		return credentials{}, fmt.Errorf("spec.redfish.credentialsSecretRef: %w", err)
	}
	if err := bound(secret, &f.Spec.Redfish); err != nil {
		return credentials{}, err
	}
	c := credentials{
		username:  string(secret.Data[corev1.BasicAuthUsernameKey]),
		password:  string(secret.Data[corev1.BasicAuthPasswordKey]),
		authority: secret.Data[corev1.ServiceAccountRootCAKey],
		version:   string(secret.UID) + "/" + secret.ResourceVersion,
	}
	if c.username == "" || c.password == "" {
		return credentials{}, fmt.Errorf("spec.redfish.credentialsSecretRef: secret %s/%s needs the keys %s and %s",
			ref.Namespace, ref.Name, corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
	}
	return c, nil
}

// bound refuses to send a Secret anywhere but where the Secret itself says, and to a
// service that anybody can pretend to be.
func bound(secret *corev1.Secret, redfish *v1alpha1.Redfish) error {
	named := strings.Fields(secret.Annotations[v1alpha1.SecretEndpoint])
	if !slices.ContainsFunc(named, func(one string) bool { return sameEndpoint(one, redfish.Endpoint) }) {
		return &unboundError{fmt.Sprintf("spec.redfish.credentialsSecretRef: secret %s/%s may not be sent to spec.redfish.endpoint %s: "+
			"its annotation %s does not name that endpoint; who owns the Secret has to set it there", secret.Namespace, secret.Name,
			redfish.Endpoint, v1alpha1.SecretEndpoint)}
	}
	if redfish.InsecureSkipVerify && secret.Annotations[v1alpha1.SecretInsecure] != "true" {
		return &unboundError{fmt.Sprintf("spec.redfish.insecureSkipVerify: secret %s/%s may not be sent to a service that nobody vouches for: "+
			"use spec.redfish.caBundle, or have who owns the Secret set its annotation %s to \"true\"", secret.Namespace, secret.Name,
			v1alpha1.SecretInsecure)}
	}
	return nil
}

// sameEndpoint tells whether two URLs are of one scheme, host and port.
func sameEndpoint(a, b string) bool {
	first, ok := origin(a)
	second, alsoOK := origin(b)
	return ok && alsoOK && first == second
}

// origin is the scheme, host and port of a URL that has nothing else.
func origin(endpoint string) (origin string, ok bool) {
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || at.User != nil || strings.Trim(at.Path, "/") != "" || at.RawQuery != "" || at.Fragment != "" {
		return "", false
	}
	port := cmp.Or(at.Port(), map[string]string{"https": "443", "http": "80"}[at.Scheme])
	return at.Scheme + "://" + net.JoinHostPort(strings.ToLower(at.Hostname()), port), true
}

// Service is a manager that tells who it is, with a session to end.
type Service interface {
	fabric.Manager
	// Service is an identifier that no other service has, empty where the manager has
	// none.
	Service(ctx context.Context) (string, error)
	Close(ctx context.Context) error
}

// loginError has the error of a call say what to change, where the service refuses the
// login.
func loginError(f *v1alpha1.Fabric, err error) error {
	var busy *fabric.BusyError
	if !errors.As(err, &busy) || !busy.LoginRefused {
		return err
	}
	reason := "the service wants a user: set spec.redfish.credentialsSecretRef"
	if ref := f.Spec.Redfish.CredentialsSecretRef; ref != nil {
		reason = fmt.Sprintf("user name or password of secret %s/%s (spec.redfish.credentialsSecretRef) is wrong", ref.Namespace, ref.Name)
	}
	return &fabric.BusyError{RetryAfter: busy.RetryAfter, Reason: reason, LoginRefused: true}
}

// shortestCall is how long a call of the manager may take at least: it is several
// requests.
const shortestCall = time.Minute

func callTimeout(spec *v1alpha1.Redfish) time.Duration {
	if spec.Timeout == nil {
		return shortestCall
	}
	return max(spec.Timeout.Duration, shortestCall)
}

// newRedfish makes a manager for a Fabric.
func newRedfish(f *v1alpha1.Fabric, c credentials, ours func(fabric.DeviceRef) bool) (Service, error) {
	spec := f.Spec.Redfish
	options := redfish.Options{
		Endpoint: strings.TrimSuffix(spec.Endpoint, "/"), Username: c.username, Password: c.password,
		CABundle: spec.CABundle, InsecureSkipVerify: spec.InsecureSkipVerify, InsecurePlainHTTP: spec.AllowPlainText,
		Limits: policyOf(f).Limits, Ours: ours, Timeout: callTimeout(&spec),
	}
	if len(c.authority) > 0 {
		// Who owns the Secret knows who is to have it.
		options.CABundle = c.authority
	}
	m, err := redfish.New(options)
	if err != nil {
		return nil, fmt.Errorf("spec.redfish: %w", err)
	}
	return m, nil
}
