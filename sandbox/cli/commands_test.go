// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// limit bounds waiting for something that is bound to come.
const limit = 2 * time.Minute

// commands are those that scripts have beside testscript's own.
var commands = map[string]func(*testscript.TestScript, bool, []string){
	"exits":        exits,
	"await":        await,
	"awaitrunning": awaitRunning,
	"empty":        empty,
	"stderropen":   stderrOpen,
}

// exits runs a program and expects an exit code: exits CODE PROGRAM ARG...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	code := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = strconv.Itoa(exit.ExitCode())
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// await waits until a file exists: await PATTERN
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await PATTERN")
	}
	err := wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, limit, true, func(context.Context) (bool, error) {
		files, err := filepath.Glob(args[0])
		return len(files) > 0, err
	})
	if err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
}

// awaitRunning waits until a kubeconfig exists and a pod runs in its cluster:
// awaitrunning KUBECONFIG-PATTERN NAMESPACE POD
func awaitRunning(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: awaitrunning KUBECONFIG-PATTERN NAMESPACE POD")
	}
	var last error
	err := wait.PollUntilContextTimeout(context.Background(), 100*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		var phase corev1.PodPhase
		phase, last = podPhase(ctx, args[0], args[1], args[2])
		return phase == corev1.PodRunning, nil
	})
	if err != nil {
		ts.Fatalf("pod %s/%s: %v; last error: %v", args[1], args[2], err, last)
	}
}

func podPhase(ctx context.Context, pattern, namespace, name string) (corev1.PodPhase, error) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return "", err
	}
	config, err := clientcmd.BuildConfigFromFlags("", files[0])
	if err != nil {
		return "", err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return pod.Status.Phase, nil
}

// empty expects that a directory has nothing in it: empty DIR
func empty(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: empty DIR")
	}
	entries, err := os.ReadDir(args[0])
	if err != nil {
		ts.Fatalf("%v", err)
	}
	for _, entry := range entries {
		ts.Fatalf("%s is left", filepath.Join(args[0], entry.Name()))
	}
}

// stderrOpen expects that descriptor 2 of the one process with a variable in its
// environment is the pipe that it was started with: stderropen NAME=VALUE
func stderrOpen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: stderropen NAME=VALUE")
	}
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		ts.Fatalf("%v", err)
	}
	found := 0
	for _, file := range environments {
		text, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(text), "\x00"), args[0]) {
			continue // It has ended, or is somebody else's.
		}
		found++
		at, err := os.Readlink(filepath.Join(filepath.Dir(file), "fd", "2"))
		if err != nil || !strings.HasPrefix(at, "pipe:") {
			ts.Fatalf("standard error of the process is %q, want a pipe: %v", at, err)
		}
	}
	if found != 1 {
		ts.Fatalf("%d processes have %s, want one", found, args[0])
	}
}
