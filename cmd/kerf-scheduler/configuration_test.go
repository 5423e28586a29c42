// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	kerfv1 "kerf.dev/kerf/api/scheduler/v1"
	"kerf.dev/kerf/kube/scheduler"
)

// prepare runs the command up to the point where the scheduler would start, and
// returns the configuration that it would start with.
func prepare(t *testing.T, args ...string) (*config.KubeSchedulerConfiguration, error) {
	t.Helper()
	cmd := newCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	var cfg *config.KubeSchedulerConfiguration
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		cfg, err = options.LoadConfigFromFile(klog.Background(), cmd.Flag("config").Value.String())
		return err
	}
	return cfg, cmd.Execute()
}

func TestShippedConfiguration(t *testing.T) {
	cfg, err := prepare(t)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Profiles) != 1 {
		t.Fatalf("got %d profiles, want 1", len(cfg.Profiles))
	}
	profile := cfg.Profiles[0]
	if !enables(&profile, scheduler.Name) || enables(&profile, "DynamicResources") {
		t.Errorf("want Kerf enabled and DynamicResources disabled, got %+v", profile.Plugins.MultiPoint)
	}
	i := slices.IndexFunc(profile.Plugins.MultiPoint.Enabled, func(p config.Plugin) bool { return p.Name == scheduler.Name })
	if got := profile.Plugins.MultiPoint.Enabled[i].Weight; got != 2 {
		t.Errorf("got weight %d, want 2", got)
	}
	for point, set := range map[string]config.PluginSet{"postFilter": profile.Plugins.PostFilter, "podGroupPostFilter": profile.Plugins.PodGroupPostFilter} {
		if len(set.Enabled) != 1 || set.Enabled[0].Name != scheduler.Name {
			t.Errorf("%s: got %+v, want Kerf explicitly and so first", point, set.Enabled)
		}
	}
	i = slices.IndexFunc(profile.PluginConfig, func(c config.PluginConfig) bool { return c.Name == scheduler.Name })
	if i < 0 {
		t.Fatal("there is no configuration of the plugin")
	}
	args, err := kerfv1.Decode(profile.PluginConfig[i].Args)
	if err != nil {
		t.Fatal(err)
	}
	if args.BindingTimeout.Duration != kerfv1.DefaultBindingTimeout || args.Scoring != kerfv1.BestFit || *args.StepBudget != kerfv1.DefaultStepBudget {
		t.Errorf("the shipped arguments are not the defaults: %+v", args)
	}
}

func TestFlagsApplyToTheShippedConfiguration(t *testing.T) {
	cfg, err := prepare(t, "--kubeconfig=/k", "--kube-api-qps=7", "--kube-api-burst=9", "--profiling=false", "--kube-api-content-type=application/json")
	if err != nil {
		t.Fatal(err)
	}
	c := cfg.ClientConnection
	if c.Kubeconfig != "/k" || c.QPS != 7 || c.Burst != 9 || c.ContentType != "application/json" || cfg.EnableProfiling {
		t.Errorf("got %+v and profiling %v, want what the flags say", c, cfg.EnableProfiling)
	}
}

func TestUsersConfiguration(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: mine\n"
	for name, tc := range map[string]struct {
		text string
		// wantErr are parts of the error.
		wantErr []string
	}{
		"typed arguments": {text: scheduler.DefaultConfiguration()},
		"plain arguments": {text: head + "  pluginConfig: [{name: Kerf, args: {bindingTimeout: 5s}}]\n"},
		"bad argument": {
			text:    head + "  pluginConfig: [{name: Kerf, args: {scoring: best}}]\n",
			wantErr: []string{"profile mine", "pluginConfig Kerf", "scoring", `"BestFit"`},
		},
		"both plugins": {
			text:    head + "  plugins: {multiPoint: {enabled: [{name: Kerf}]}}\n",
			wantErr: []string{"profile mine", "Kerf and DynamicResources are both enabled", "multiPoint.disabled"},
		},
		"not a configuration": {text: "kind: Pod\napiVersion: v1\n", wantErr: []string{"Pod"}},
		"unknown field":       {text: head + "  plugin: {}\n", wantErr: []string{"plugin"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := prepare(t, "--config="+path)
			if len(tc.wantErr) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if input := (*inputError)(nil); !errors.As(err, &input) {
				t.Fatalf("got error %v, want an inputError", err)
			}
			for _, part := range append(tc.wantErr, path) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not mention %q", err, part)
				}
			}
		})
	}
}

func TestMissingFile(t *testing.T) {
	_, err := prepare(t, "--config=/nowhere/config.yaml")
	if input := (*inputError)(nil); !errors.As(err, &input) || !strings.Contains(err.Error(), "/nowhere/config.yaml") {
		t.Errorf("got error %v, want an inputError that names the file", err)
	}
}

func TestUnknownFlag(t *testing.T) {
	_, err := prepare(t, "--bindingTimeout=5s")
	if input := (*inputError)(nil); !errors.As(err, &input) {
		t.Errorf("got error %v, want an inputError", err)
	}
}

func TestHelpShowsTheShippedConfiguration(t *testing.T) {
	cmd := newCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--help"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), scheduler.DefaultConfiguration()) {
		t.Error("the help does not show the shipped configuration")
	}
	if d := 10 * time.Minute; kerfv1.DefaultBindingTimeout != d {
		t.Errorf("the default timeout is not %s any more, nor is what the help says", d)
	}
}
