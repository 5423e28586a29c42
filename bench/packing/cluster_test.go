// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/manifest"
)

// example has a node with partitionable cards, which is taken as the model of
// all nodes here, and the device classes.
const example = "../../examples/partitioned-gpus"

const model = "gpu-node-1"

// cluster is what devices exist: so many nodes like the model.
type cluster struct {
	nodes   []*v1.Node
	slices  []*resourceapi.ResourceSlice
	classes map[string]*resourceapi.DeviceClass
	// cards is how many there are, all like card.
	cards int
	card  *card
}

func newCluster(nodes int) (*cluster, error) {
	set, err := manifest.Load(nil, example+"/cluster.yaml", example+"/classes.yaml")
	if err != nil {
		return nil, err
	}
	c := &cluster{classes: map[string]*resourceapi.DeviceClass{}}
	var models []*resourceapi.ResourceSlice
	for _, object := range set.Objects {
		typed, err := scheme.Scheme.New(object.GroupVersionKind())
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
			return nil, err
		}
		switch typed := typed.(type) {
		case *resourceapi.DeviceClass:
			c.classes[typed.Name] = typed
		case *resourceapi.ResourceSlice:
			if typed.Spec.NodeName != nil && *typed.Spec.NodeName == model {
				models = append(models, typed)
			}
		}
	}
	if len(models) == 0 {
		return nil, errors.New(example + " has no slices of " + model)
	}
	for n := range nodes {
		c.addNode(fmt.Sprintf("node-%02d", n), models)
	}
	pool := inventory.NewPool(inventory.PoolID{Driver: models[0].Spec.Driver, Pool: c.nodes[0].Name}, c.slices[:len(models)], nil)
	cards, err := c.cardsOf(pool)
	if err != nil {
		return nil, err
	}
	for i := range cards {
		if !reflect.DeepEqual(cards[i], cards[0]) {
			return nil, fmt.Errorf("card %d of %s is not like the first", i, model)
		}
	}
	c.cards, c.card = nodes*len(cards), &cards[0]
	return c, nil
}

// addNode adds a node with the devices of the model.
func (c *cluster) addNode(name string, models []*resourceapi.ResourceSlice) {
	node := &v1.Node{}
	node.Name = name
	c.nodes = append(c.nodes, node)
	for _, m := range models {
		s := m.DeepCopy()
		s.Name = strings.Replace(s.Name, model, name, 1)
		s.Spec.NodeName = &node.Name
		s.Spec.Pool.Name = name
		c.slices = append(c.slices, s)
	}
}

// class looks up a device class, nil where there is none.
func (c *cluster) class(name string) *resourceapi.DeviceClass { return c.classes[name] }

// Get and List make the classes a lister for the stock allocator.
func (c *cluster) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c.classes[name]; class != nil {
		return class, nil
	}
	return nil, fmt.Errorf("device class %s not found", name)
}

// List returns all classes.
func (c *cluster) List() ([]*resourceapi.DeviceClass, error) {
	return slices.Collect(maps.Values(c.classes)), nil
}
