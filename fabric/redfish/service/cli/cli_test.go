// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"kerf.dev/kerf/fabric/redfish"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const shelf = `
hosts: [{id: host-a}, {id: host-b}]
blocks: [{id: gpu, count: 2, model: A100}]
`

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func environment(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

func TestBadInput(t *testing.T) {
	config := write(t, "shelf.yaml", shelf)
	login := map[string]string{usernameVariable: "kerf", passwordVariable: "secret"}
	dir := t.TempDir()
	for _, tc := range []struct {
		name string
		args []string
		env  map[string]string
		want string
	}{
		{name: "no description", env: login, want: "--config is missing"},
		{name: "description is not there", args: []string{"--config", dir + "/none"}, env: login, want: "none: no such file"},
		{name: "no YAML", args: []string{"--config", write(t, "x", "{")}, env: login, want: "description of the fabric"},
		{name: "unknown field", args: []string{"--config", write(t, "x", shelf+"colour: red")}, env: login, want: `unknown field "colour"`},
		{name: "second document", args: []string{"--config", write(t, "two.yaml", shelf+"---"+shelf)}, env: login, want: "two.yaml: description of the fabric: there is a second YAML document"},
		{name: "no host", args: []string{"--config", write(t, "x", "blocks: [{id: a}]")}, env: login, want: "hosts: there is none"},
		{name: "fault", args: []string{"--config", write(t, "x", shelf+"faults: [{kind: busy, block: gpu-9}]")}, env: login, want: `faults[0]: fault busy: there is no block "gpu-9"`},
		{name: "no user", args: []string{"--config", config}, want: usernameVariable},
		{name: "no password", args: []string{"--config", config, "--username", "kerf"}, want: passwordVariable},
		{name: "empty password", args: []string{"--config", config, "--username", "kerf", "--password-file", write(t, "p", "\n")}, want: "is empty"},
		{name: "password file is not there", args: []string{"--config", config, "--username", "kerf", "--password-file", dir + "/none"}, want: "--password-file"},
		{name: "listen", args: []string{"--config", config, "--listen", "here"}, env: login, want: `--listen is "here"`},
		{name: "admin for all", args: []string{"--config", config, "--admin-listen", "0.0.0.0:8444"}, env: login, want: "want a loopback address"},
		{name: "half a certificate", args: []string{"--config", config, "--tls-cert", "x"}, env: login, want: "go together"},
		{name: "no certificate", args: []string{"--config", config, "--tls-cert", dir + "/c", "--tls-key", dir + "/k"}, env: login, want: "--tls-cert"},
		{name: "CA file", args: []string{"--config", config, "--ca-file", dir + "/none/ca"}, env: login, want: "--ca-file"},
		{name: "state", args: []string{"--config", config, "--state", write(t, "s", "{}")}, env: login, want: "state: version is 0, want 1"},
		{name: "state of another", args: []string{"--config", config, "--state", write(t, "s", `{"version": 1, "blocks": {"x": {}}}`)}, env: login, want: `state: block "x" is not in the description`},
		{name: "argument", args: []string{"serve"}, env: login, want: "unknown command"},
		{name: "flag", args: []string{"--speed"}, env: login, want: "unknown flag"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out, err bytes.Buffer
			code := Main(t.Context(), tc.args, Process{Out: &out, Err: &err, Getenv: environment(tc.env)})
			if code != exitBadInput || !strings.Contains(err.String(), tc.want) || strings.Count(err.String(), "error:") != 1 {
				t.Errorf("exit code %d, want 2 and one error with %q:\n%s", code, tc.want, err.String())
			}
			if strings.Contains(out.String()+err.String(), "secret") {
				t.Error("the password is in the output")
			}
		})
	}
}

// lines is an output that can be waited for.
type lines struct {
	mu    sync.Mutex
	text  strings.Builder
	wrote chan struct{}
}

func newLines() *lines { return &lines{wrote: make(chan struct{})} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.wrote)
	l.wrote = make(chan struct{})
	return l.text.Write(p)
}

// after waits for a line that begins with a prefix and returns the rest of it.
func (l *lines) after(t *testing.T, prefix string) string {
	t.Helper()
	for {
		l.mu.Lock()
		text, wrote := l.text.String(), l.wrote
		l.mu.Unlock()
		for _, line := range strings.SplitAfter(text, "\n") {
			if rest, ok := strings.CutPrefix(line, prefix); ok && strings.HasSuffix(rest, "\n") {
				return strings.TrimSpace(rest)
			}
		}
		select {
		case <-wrote:
		case <-t.Context().Done():
			t.Fatalf("no line begins with %q:\n%s", prefix, text)
		}
	}
}

// running is the command as it serves.
type running struct {
	out, err *lines
	stop     func() int
}

func start(t *testing.T, args ...string) running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := running{out: newLines(), err: newLines()}
	code := make(chan int, 1)
	env := map[string]string{usernameVariable: "kerf", passwordVariable: "secret"}
	go func() { code <- Main(ctx, args, Process{Out: r.out, Err: r.err, Getenv: environment(env)}) }()
	r.stop = sync.OnceValue(func() int {
		cancel()
		return <-code
	})
	t.Cleanup(func() { r.stop() })
	return r
}

func (r running) manager(t *testing.T, caFile string) *redfish.Manager {
	t.Helper()
	endpoint := r.out.after(t, "Redfish on ")
	ca, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	m, err := redfish.New(redfish.Options{Endpoint: endpoint, Username: "kerf", Password: "secret", CABundle: ca})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestServe attaches a device, scripts a fault, restarts, and finds the device attached.
func TestServe(t *testing.T) {
	const block, host = "/redfish/v1/CompositionService/ResourceBlocks/gpu-1", "/redfish/v1/Systems/host-a"
	ca, state := filepath.Join(t.TempDir(), "ca.crt"), filepath.Join(t.TempDir(), "state.json")
	args := []string{
		"--config", write(t, "shelf.yaml", shelf), "--listen", "127.0.0.1:0", "--ca-file", ca, "--state", state,
		"--admin-listen", "127.0.0.1:0",
	}
	r := start(t, args...)
	m := r.manager(t, ca)
	if _, err := m.Attach(t.Context(), block, host); err != nil {
		t.Fatal(err)
	}
	if got := r.err.after(t, "host-a sees "); got != "gpu-1" {
		t.Errorf("host-a sees %s, want gpu-1", got)
	}
	admin := r.out.after(t, "faults on ")
	fault := `{"kind": "refused", "operation": "detach", "status": 418}`
	if code, body := post(t, admin, "application/json", fault); code != http.StatusOK {
		t.Fatalf("%d: %s", code, body)
	}
	if code, _ := post(t, admin, "text/plain", fault); code != http.StatusUnsupportedMediaType {
		t.Errorf("a page in a browser can script faults: %d", code)
	}
	if code, body := post(t, admin, "application/json", `{"kind": "bored"}`); code != http.StatusBadRequest || !strings.Contains(body, "want one of busy") {
		t.Errorf("%d: %s", code, body)
	}
	if _, err := m.Detach(t.Context(), block, host); err == nil || !strings.Contains(err.Error(), "418") {
		t.Errorf("got %v, want the fault", err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if code := r.stop(); code != exitComplete {
		t.Errorf("exit code %d, want 0", code)
	}
	for _, output := range []*lines{r.out, r.err} {
		if strings.Contains(output.text.String(), "secret") {
			t.Error("the password is in the output")
		}
	}

	r = start(t, args...)
	m = r.manager(t, ca)
	inventory, err := m.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := inventory.Devices[0]; got.Machine != host {
		t.Errorf("after a restart, %s is at %q, want %s", got.Ref, got.Machine, host)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func post(t *testing.T, url, contentType, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil || response.Body.Close() != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestStateCannotBeKept ends the service: it would forget what it has promised.
func TestStateCannotBeKept(t *testing.T) {
	ca, dir := filepath.Join(t.TempDir(), "ca.crt"), filepath.Join(t.TempDir(), "gone")
	r := start(t, "--config", write(t, "shelf.yaml", shelf), "--listen", "127.0.0.1:0", "--ca-file", ca, "--state", dir+"/state.json")
	m := r.manager(t, ca)
	// The login is a change already.
	_, _ = m.Inventory(t.Context())
	if got := r.err.after(t, "error: --state "); !strings.Contains(got, dir) {
		t.Errorf("got %q, want the file", got)
	}
	if code := r.stop(); code != exitFailed {
		t.Errorf("exit code %d, want 3", code)
	}
	_ = m.Close(t.Context()) // Nobody is there any more.
}

func TestAddressInUse(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	args := []string{"--config", write(t, "shelf.yaml", shelf), "--ca-file", ca}
	first := start(t, append(args, "--listen", "127.0.0.1:0")...)
	at := strings.TrimPrefix(first.out.after(t, "Redfish on "), "https://")
	second := start(t, append(args, "--listen", at)...)
	if got := second.err.after(t, "error: "); !strings.Contains(got, "address already in use") {
		t.Errorf("got %q", got)
	}
	if code := second.stop(); code != exitFailed {
		t.Errorf("exit code %d, want 3", code)
	}
}
