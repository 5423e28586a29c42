// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// resultRef is a story's name for an allocated device: POOL/DEVICE.
func resultRef(r *resourceapi.DeviceRequestAllocationResult) string { return r.Pool + "/" + r.Device }

// devicesOf returns the devices of claims in the order of the results.
func devicesOf(claims []*Claim) []string {
	var devices []string
	for _, c := range claims {
		if c == nil {
			continue
		}
		for _, r := range claim.Results(c) {
			devices = append(devices, resultRef(r))
		}
	}
	return devices
}

func fold(names []string) string { return strings.Join(foldIntervals(names), " ") }

func doPods(t *telling, _ call) (string, error) {
	state, err := t.state()
	if err != nil {
		return "", err
	}
	var rows table
	rows.add("POD", "NODE", "DEVICES")
	for _, pod := range state.Pods {
		rows.add(refOf(pod), pod.Spec.NodeName, fold(devicesOf(state.claimsOf(pod))))
	}
	return rows.String(), nil
}

func doClaims(t *telling, _ call) (string, error) {
	state, err := t.state()
	if err != nil {
		return "", err
	}
	var rows table
	rows.add("CLAIM", "DEVICES", "USABLE ON", "USED BY")
	for _, claim := range state.ResourceClaims {
		rows.add(claimRef(claim), results(claim), fold(state.usableOn(claim)), fold(consumers(claim)))
	}
	return rows.String(), nil
}

// results shows what each request of a claim got: REQUEST=DEVICE DEVICE...
func results(c *Claim) string {
	var requests []string
	devices := map[string][]string{}
	for _, r := range claim.Results(c) {
		if devices[r.Request] == nil {
			requests = append(requests, r.Request)
		}
		devices[r.Request] = append(devices[r.Request], resultRef(r)+remarks(r))
	}
	var parts []string
	for _, r := range requests {
		parts = append(parts, r+"="+fold(devices[r]))
	}
	return strings.Join(parts, ", ")
}

// remarks shows what is special about a result.
func remarks(r *resourceapi.DeviceRequestAllocationResult) string {
	var text string
	if r.AdminAccess != nil && *r.AdminAccess {
		text += "(admin)"
	}
	if r.ShareID != nil {
		text += "(share" + consumed(r) + ")"
	}
	if len(r.BindingConditions) > 0 {
		text += "(until " + strings.Join(r.BindingConditions, ",") + ")"
	}
	return text
}

func consumed(r *resourceapi.DeviceRequestAllocationResult) string {
	var amounts []string
	for name, q := range r.ConsumedCapacity {
		amounts = append(amounts, fmt.Sprintf(" %s=%s", name, q.String()))
	}
	slices.Sort(amounts)
	return strings.Join(amounts, "")
}

// anyNode stands for an allocation without a node selector.
const anyNode = "any"

// usableOn returns the nodes that can use the allocation of a claim.
func (s *State) usableOn(c *Claim) []string {
	a := c.Status.Allocation
	if a != nil && a.NodeSelector == nil {
		return []string{anyNode}
	}
	var names []string
	for _, node := range s.Nodes {
		if a != nil && claim.Reaches(a, node) {
			names = append(names, node.Name)
		}
	}
	return names
}

// consumers returns the pods, or groups, that a claim is reserved for.
func consumers(claim *Claim) []string {
	var names []string
	for _, r := range claim.Status.ReservedFor {
		name := r.Name
		if r.Resource != "pods" {
			name = r.Resource + ":" + r.Name
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func doConfig(t *telling, c call) (string, error) {
	name, err := c.name()
	if err != nil {
		return "", err
	}
	state, err := t.state()
	if err != nil {
		return "", err
	}
	claim, err := state.claim(name)
	if err != nil {
		return "", err
	}
	if claim.Status.Allocation == nil {
		return "", unmet("claim %s is not allocated", name)
	}
	var rows table
	rows.add("SOURCE", "REQUESTS", "DRIVER", "PARAMETERS")
	for _, config := range claim.Status.Allocation.Devices.Config {
		driver, parameters := "", ""
		if config.Opaque != nil {
			driver, parameters = config.Opaque.Driver, string(config.Opaque.Parameters.Raw)
		}
		rows.add(string(config.Source), strings.Join(config.Requests, " "), driver, parameters)
	}
	return rows.String(), nil
}

func doPools(t *telling, _ call) (string, error) {
	state, err := t.state()
	if err != nil {
		return "", err
	}
	var rows table
	rows.add("POOL", "GENERATION", "DEVICES", "TAKEN", "PROBLEM")
	for pool, use := range state.Inventory().Snapshot().Pools {
		taken := 0
		for _, o := range use.Taken {
			if o != nil {
				taken++
			}
		}
		rows.add(pool.ID.Pool, fmt.Sprint(pool.Generation), fmt.Sprint(len(pool.Devices)), fmt.Sprint(taken+len(use.Gone)), problemText(pool))
	}
	return rows.String(), nil
}

func doCounters(t *telling, c call) (string, error) {
	state, err := t.state()
	if err != nil {
		return "", err
	}
	var rows table
	rows.add("POOL", "SET", "COUNTER", "FREE", "OF")
	for pool, use := range state.Inventory().Snapshot().Pools {
		if len(c.words) > 0 && !slices.ContainsFunc(c.words, func(w word) bool { return w.text == pool.ID.Pool }) {
			continue
		}
		for i, counter := range pool.Counters {
			free := amountText(use.Free[i])
			if use.Closed[counter.Set] {
				free = "closed"
			}
			rows.add(pool.ID.Pool, pool.Sets[counter.Set].Name, counter.Name, free, amountText(counter.Value))
		}
	}
	return rows.String(), nil
}

func amountText(a inventory.Amount) string {
	q := a.Quantity()
	return q.String()
}
