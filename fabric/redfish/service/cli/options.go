// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"kerf.dev/kerf/fabric/redfish/description"
	"kerf.dev/kerf/fabric/redfish/service"
)

// options are the flags.
type options struct {
	process Process

	config, listen, adminListen, stateFile string
	certFile, keyFile, caFile              string
	username, passwordFile                 string
}

// credentials come from the flags, else from the environment.
func (o *options) credentials() (username, password string, err error) {
	username = o.username
	if username == "" {
		username = o.process.Getenv(usernameVariable)
	}
	if username == "" {
		return "", "", fmt.Errorf("there is no user name: use --username or %s", usernameVariable)
	}
	password = o.process.Getenv(passwordVariable)
	if o.passwordFile != "" {
		text, err := os.ReadFile(o.passwordFile)
		if err != nil {
			return "", "", fmt.Errorf("--password-file: %w", err)
		}
		if password = strings.TrimRight(string(text), "\r\n"); password == "" {
			return "", "", fmt.Errorf("--password-file: %s is empty", o.passwordFile)
		}
	}
	if password == "" {
		return "", "", fmt.Errorf("there is no password: use --password-file or %s", passwordVariable)
	}
	return username, password, nil
}

// description reads the hosts and devices.
func (o *options) description() (description.Config, error) {
	if o.config == "" {
		return description.Config{}, errors.New("--config is missing: a file that describes hosts and devices; see --help")
	}
	text, err := os.ReadFile(o.config)
	if err != nil {
		return description.Config{}, fmt.Errorf("--config: %w", err)
	}
	config, err := description.ParseConfig(text)
	if err != nil {
		return description.Config{}, fmt.Errorf("%s: %w", o.config, err)
	}
	return config, nil
}

// state reads what a former run has kept, nil where there was none.
func (o *options) state() (*service.State, error) {
	if o.stateFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(o.stateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	var state service.State
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, fmt.Errorf("%s: %w; remove it to begin anew", o.stateFile, err)
	}
	return &state, nil
}

// keep writes the state in one step: a crash leaves the old or the new.
func (o *options) keep(state service.State) error {
	text, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(o.stateFile), filepath.Base(o.stateFile)+".*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(append(text, '\n'))
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), o.stateFile)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// certificate is that of the flags, or one that is made now, whose authority is written to a file.
func (o *options) certificate() (tls.Certificate, error) {
	if (o.certFile == "") != (o.keyFile == "") {
		return tls.Certificate{}, errors.New("--tls-cert and --tls-key go together: one is missing")
	}
	if o.certFile != "" {
		certificate, err := tls.LoadX509KeyPair(o.certFile, o.keyFile)
		if err != nil {
			return tls.Certificate{}, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", o.certFile, o.keyFile, err)
		}
		return certificate, nil
	}
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if host, _, err := net.SplitHostPort(o.listen); err == nil && host != "" {
		hosts = append(hosts, host)
	}
	certificate, authority, err := service.SelfSigned(hosts)
	if err != nil {
		return tls.Certificate{}, failure{err}
	}
	if err := os.WriteFile(o.caFile, authority, 0o644); err != nil {
		return tls.Certificate{}, fmt.Errorf("--ca-file: %w", err)
	}
	return certificate, nil
}

// checkAddresses refuses an address without a port, and an admin address that others can reach.
func (o *options) checkAddresses() error {
	if _, _, err := net.SplitHostPort(o.listen); err != nil {
		return fmt.Errorf("--listen is %q, want an address and a port such as 127.0.0.1:8443", o.listen)
	}
	if o.adminListen == "" {
		return nil
	}
	address, err := netip.ParseAddrPort(o.adminListen)
	if err != nil || !address.Addr().IsLoopback() {
		return fmt.Errorf("--admin-listen is %q, want a loopback address and a port such as 127.0.0.1:8444: it has no credentials", o.adminListen)
	}
	return nil
}
