// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"kerf.dev/kerf/kube/augment"
)

// helper stands for the kubeletplugin.Helper of a driver.
type helper struct{}

func (helper) PublishResources(_ context.Context, resources resourceslice.DriverResources) error {
	for _, device := range resources.Pools["node-1"].Slices[0].Devices {
		fmt.Println(device.Name, device.Taints[0].Key+"="+device.Taints[0].Value)
	}
	return nil
}

// A driver publishes through a Publisher instead of through its helper.
func Example_driver() {
	ctx := context.Background()
	directory, cleanup := exampleDirectory()
	defer cleanup()

	publisher, err := augment.NewPublisher(ctx, augment.Config{
		Directory: directory,
		Driver:    "gpu.example.com",
		Publish:   helper{}.PublishResources,
		Report:    func(err error) { log.Print(err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer publisher.Close()
	if err := publisher.Publish(ctx, discovered()); err != nil {
		log.Fatal(err)
	}
	// Output: gpu-0 fabric.kerf.dev/claim=5f0cbb1a
}

// discovered is what the driver found on its node.
func discovered() resourceslice.DriverResources {
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{"node-1": {Slices: []resourceslice.Slice{{
		Devices: []resourceapi.Device{{
			Name:       "gpu-0",
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"uuid": {StringValue: new("GPU-1")}},
		}},
	}}}}}
}

func exampleDirectory() (path string, cleanup func()) {
	path, err := os.MkdirTemp("", "augment")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "claim.yaml"), []byte(claimFile), 0o600); err != nil {
		log.Fatal(err)
	}
	return path, func() {
		if err := os.RemoveAll(path); err != nil {
			log.Print(err)
		}
	}
}

// A driver, or a gateway in front of it, keeps devices that a fabric attaches to its
// node for their claims. Config is how it reaches the API server.
func ExampleNewGuard() {
	run := func(ctx context.Context, config *rest.Config, publisher *augment.Publisher) error {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return err
		}
		guard, err := augment.NewGuard(ctx, augment.GuardConfig{Client: client, Node: "node-1", Publisher: publisher})
		if err != nil {
			return err
		}
		defer guard.Close()
		// Devices that are published from here on have the taints of their claims.
		return publisher.Publish(ctx, discovered())
	}
	_ = run
}
