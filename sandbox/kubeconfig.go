// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// contextName names the cluster, user and context in every kubeconfig.
const contextName = "kerf-sandbox"

// writeKubeconfig writes a self-contained kubeconfig, mode 0600.
func writeKubeconfig(path, server string, ca []byte, client keyPair) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[contextName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[contextName] = &clientcmdapi.AuthInfo{
		ClientCertificateData: client.cert,
		ClientKeyData:         client.key,
	}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: contextName}
	config.CurrentContext = contextName
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// kubeconfig writes one for a user of the API server at that address, which may be a link
// to it, and returns its path.
func (s *Sandbox) kubeconfig(name, address, user string, groups ...string) (string, error) {
	cert, err := s.ca.client(user, groups...)
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.dir, name+".kubeconfig")
	return path, writeKubeconfig(path, "https://"+address, s.ca.pem, cert)
}

// clientConfig is the same as a REST configuration. It has no client-side rate
// limit: the only server it talks to is in this process.
func clientConfig(server string, ca []byte, client keyPair) *rest.Config {
	return &rest.Config{
		Host:               server,
		QPS:                -1,
		DisableCompression: true,
		TLSClientConfig:    rest.TLSClientConfig{CAData: ca, CertData: client.cert, KeyData: client.key},
	}
}
