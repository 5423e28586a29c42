// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"sigs.k8s.io/yaml"

	kerfv1 "kerf.dev/kerf/api/scheduler/v1"
	"kerf.dev/kerf/kube/scheduler"
)

// inputError is an error that the user has to correct. The process ends with exit
// code 2.
type inputError struct{ error }

func (e *inputError) Unwrap() error { return e.error }

// supplyConfiguration checks the file that --config names. Without one it hands
// over the shipped configuration.
func supplyConfiguration(cmd *cobra.Command, _ []string) error {
	file := cmd.Flag("config")
	if !file.Changed {
		text, err := shippedWith(cmd.Flags())
		if err != nil {
			return err
		}
		pipe, err := offer(text)
		if err != nil {
			return fmt.Errorf("hand over the shipped configuration: %w", err)
		}
		cmd.PostRunE = func(*cobra.Command, []string) error { return pipe.Close() }
		return cmd.Flags().Set(file.Name, fmt.Sprintf("/dev/fd/%d", pipe.Fd()))
	}
	path := file.Value.String()
	cfg, err := options.LoadConfigFromFile(klog.Background(), path)
	if err != nil {
		return &inputError{fmt.Errorf("--config %s: %w", path, err)}
	}
	if err := check(cfg); err != nil {
		return &inputError{fmt.Errorf("--config %s: %w", path, err)}
	}
	return nil
}

// check finds mistakes about the plugin before anything is started.
func check(cfg *config.KubeSchedulerConfiguration) error {
	for i := range cfg.Profiles {
		profile := &cfg.Profiles[i]
		for _, c := range profile.PluginConfig {
			if c.Name != scheduler.Name {
				continue
			}
			if _, err := kerfv1.Decode(c.Args); err != nil {
				return fmt.Errorf("profile %s: pluginConfig %s: %w", profile.SchedulerName, c.Name, err)
			}
		}
		if enables(profile, scheduler.Name) && enables(profile, names.DynamicResources) {
			return fmt.Errorf("profile %s: plugins: %s and %s are both enabled, each would allocate devices; add %s to multiPoint.disabled",
				profile.SchedulerName, scheduler.Name, names.DynamicResources, names.DynamicResources)
		}
	}
	return nil
}

func enables(profile *config.KubeSchedulerProfile, plugin string) bool {
	return profile.Plugins != nil && slices.ContainsFunc(profile.Plugins.MultiPoint.Enabled, func(p config.Plugin) bool { return p.Name == plugin })
}

// overrides are the flags that kube-scheduler ignores where there is a
// configuration file, by the field that they stand for.
var overrides = []struct {
	flag  string
	field []string
}{
	{"kubeconfig", []string{"clientConnection", "kubeconfig"}},
	{"kube-api-content-type", []string{"clientConnection", "contentType"}},
	{"kube-api-qps", []string{"clientConnection", "qps"}},
	{"kube-api-burst", []string{"clientConnection", "burst"}},
	{"profiling", []string{"enableProfiling"}},
	{"contention-profiling", []string{"enableContentionProfiling"}},
}

// shippedWith returns the shipped configuration with the flags applied to it.
func shippedWith(flags *pflag.FlagSet) (string, error) {
	doc := map[string]any{}
	if err := yaml.Unmarshal([]byte(scheduler.DefaultConfiguration()), &doc); err != nil {
		return "", fmt.Errorf("shipped configuration: %w", err)
	}
	for _, o := range overrides {
		flag := flags.Lookup(o.flag)
		if flag == nil || !flag.Changed {
			continue
		}
		var value any = flag.Value.String()
		if flag.Value.Type() != "string" {
			if err := yaml.Unmarshal([]byte(flag.Value.String()), &value); err != nil {
				return "", fmt.Errorf("--%s: %w", o.flag, err)
			}
		}
		set(doc, o.field, value)
	}
	text, err := yaml.Marshal(doc)
	return string(text), err
}

func set(doc map[string]any, path []string, value any) {
	if len(path) == 1 {
		doc[path[0]] = value
		return
	}
	inner, ok := doc[path[0]].(map[string]any)
	if !ok {
		inner = map[string]any{}
		doc[path[0]] = inner
	}
	set(inner, path[1:], value)
}

// offer makes the text readable, once, from a pipe: there may be no file system to
// write to. Pipes hold far more than a configuration.
func offer(text string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if _, err := w.WriteString(text); err != nil {
		return nil, err
	}
	return r, w.Close()
}
