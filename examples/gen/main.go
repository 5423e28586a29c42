// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Gen writes the examples' large manifests: what the nodes and drivers of a real cluster would publish. Everything
// that a person would write (classes, claims, workloads) is written by hand beside them.
//
// The same program always writes the same bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run . -out ..

// manifests maps a file below examples/ to the function that makes its objects.
var manifests = map[string]func() []object{
	"partitioned-gpus/cluster.yaml": partitionedGPUs,
	"multi-host/cluster.yaml":       multiHost,
	"gpu-nic-aligned/cluster.yaml":  gpuNICAligned,
}

func main() {
	out := flag.String("out", "", "the examples' `directory`")
	flag.Parse()
	if *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	for name, objects := range manifests {
		data, err := render(objects())
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
