// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment_test

import (
	resourceapi "k8s.io/api/resource/v1"
	"pgregory.net/rapid"

	"kerf.dev/kerf/augment"
)

// A small world in which rules meet devices and each other often.
var (
	drivers = []string{"gpu.example.com", "nic.example.com"}
	names   = []resourceapi.QualifiedName{"uuid", "gpu.example.com/uuid", "index", "example.com/rack", "example.com/tags", "example.com/ok"}
)

func genAttribute(lists bool) *rapid.Generator[resourceapi.DeviceAttribute] {
	return rapid.Custom(func(t *rapid.T) resourceapi.DeviceAttribute {
		text := rapid.SampledFrom([]string{"a", "b", "7", "true", ""})
		version := rapid.SampledFrom([]string{"1.2.3", "2.0.0-rc.1+build"})
		number := rapid.Int64Range(-1, 1)
		last := 3
		if lists {
			last = 7
		}
		switch rapid.IntRange(0, last).Draw(t, "type") {
		case 0:
			return resourceapi.DeviceAttribute{IntValue: new(number.Draw(t, "int"))}
		case 1:
			return resourceapi.DeviceAttribute{BoolValue: new(rapid.Bool().Draw(t, "bool"))}
		case 2:
			return resourceapi.DeviceAttribute{StringValue: new(text.Draw(t, "string"))}
		case 3:
			return resourceapi.DeviceAttribute{VersionValue: new(version.Draw(t, "version"))}
		case 4:
			return resourceapi.DeviceAttribute{IntValues: rapid.SliceOfN(number, 1, 3).Draw(t, "ints")}
		case 5:
			return resourceapi.DeviceAttribute{BoolValues: rapid.SliceOfN(rapid.Bool(), 1, 3).Draw(t, "bools")}
		case 6:
			return resourceapi.DeviceAttribute{StringValues: rapid.SliceOfN(text, 1, 3).Draw(t, "strings")}
		default:
			return resourceapi.DeviceAttribute{VersionValues: rapid.SliceOfN(version, 1, 3).Draw(t, "versions")}
		}
	})
}

// genAttributes draws attributes that are each named once, with or without the
// driver's domain. It is nil if there are none.
func genAttributes(most int, lists bool) *rapid.Generator[map[resourceapi.QualifiedName]resourceapi.DeviceAttribute] {
	return rapid.Custom(func(t *rapid.T) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
		attributes := rapid.MapOfN(rapid.SampledFrom(names), genAttribute(lists), 0, most).Draw(t, "attributes")
		if _, ok := attributes["gpu.example.com/uuid"]; ok {
			delete(attributes, "uuid")
		}
		if len(attributes) == 0 {
			return nil
		}
		return attributes
	})
}

func genTaints() *rapid.Generator[[]resourceapi.DeviceTaint] {
	taint := rapid.Custom(func(t *rapid.T) resourceapi.DeviceTaint {
		return resourceapi.DeviceTaint{
			Key:    rapid.SampledFrom([]string{"broken", "example.com/claim"}).Draw(t, "key"),
			Value:  rapid.SampledFrom([]string{"", "1", "two"}).Draw(t, "value"),
			Effect: rapid.SampledFrom([]resourceapi.DeviceTaintEffect{"None", "NoSchedule", "NoExecute"}).Draw(t, "effect"),
		}
	})
	return rapid.Custom(func(t *rapid.T) []resourceapi.DeviceTaint {
		taints := rapid.SliceOfNDistinct(taint, 0, 3, func(t resourceapi.DeviceTaint) resourceapi.DeviceTaint { return t }).Draw(t, "taints")
		if len(taints) == 0 {
			return nil
		}
		return taints
	})
}

func genRule() *rapid.Generator[augment.Rule] {
	return rapid.Custom(func(t *rapid.T) augment.Rule {
		rule := augment.Rule{
			Select: augment.Selector{
				Pool:       rapid.SampledFrom([]string{"", "node-1", "node-*"}).Draw(t, "pool"),
				Name:       rapid.SampledFrom([]string{"", "*", "gpu-0", "gpu-?", "gpu-[12]"}).Draw(t, "name"),
				Attributes: genAttributes(1, false).Draw(t, "selected"),
			},
			Add: augment.Addition{Attributes: genAttributes(2, true).Draw(t, "added"), Taints: genTaints().Draw(t, "taints")},
		}
		if rule.Select.Pool == "" && rule.Select.Name == "" && rule.Select.Attributes == nil {
			rule.Select.Name = "*"
		}
		if rule.Add.Attributes == nil && rule.Add.Taints == nil {
			rule.Add.Taints = []resourceapi.DeviceTaint{{Key: "default", Effect: resourceapi.DeviceTaintEffectNone}}
		}
		return rule
	})
}

func genPools() *rapid.Generator[[]augment.Pool] {
	return rapid.Custom(func(t *rapid.T) []augment.Pool {
		var pools []augment.Pool
		for _, pool := range []string{"node-1", "node-2"} {
			p := augment.Pool{Name: pool}
			for _, device := range []string{"gpu-0", "gpu-1", "nvme"} {
				p.Devices = append(p.Devices, resourceapi.Device{
					Name: device, Attributes: genAttributes(3, true).Draw(t, "attributes"), Taints: genTaints().Draw(t, "taints"),
				})
			}
			pools = append(pools, p)
		}
		return pools
	})
}

func genFiles(t *rapid.T) []*augment.File {
	var files []*augment.File
	for _, name := range []string{"a.yaml", "b.yaml", "c.yml"} {
		data, err := augment.Marshal(augment.NewDocument(drivers[0], rapid.SliceOfN(genRule(), 1, 3).Draw(t, "rules")...))
		if err != nil {
			t.Fatal(err)
		}
		file, err := augment.Parse(name, data)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}
