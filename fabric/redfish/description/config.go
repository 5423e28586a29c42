// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package description

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	goyaml "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"kerf.dev/kerf/document"
)

// Config describes a fabric. It is read from YAML or JSON by [ParseConfig].
type Config struct {
	// Name of the service; "kerf-redfish" if empty.
	Name string `json:"name,omitempty"`
	// Zones are names. A block can go to the hosts of a zone that they share. Without any, all share one zone, "all".
	Zones  []string `json:"zones,omitempty"`
	Hosts  []Host   `json:"hosts"`
	Blocks []Block  `json:"blocks"`

	Latency Latency `json:"latency,omitzero"`
	Limits  Limits  `json:"limits,omitzero"`
	// Tasks has the service answer attach and detach with 202 and a task monitor, not when they are done.
	Tasks bool `json:"tasks,omitempty"`
	// Without names the parts of Redfish to leave out; see FeatureActions and those after it.
	Without []string `json:"without,omitempty"`
	// PageSize limits the members in a page of a collection; 0: all in one page.
	PageSize int `json:"pageSize,omitempty"`
	// Faults are there from the start. More can be added later.
	Faults []Fault `json:"faults,omitempty"`
}

// Host is a machine that devices can be attached to.
type Host struct {
	ID string `json:"id"`
	// HostName is the ID if empty.
	HostName string `json:"hostName,omitempty"`
	// UUID and SerialNumber are made from the ID if empty, always the same.
	UUID         string `json:"uuid,omitempty"`
	SerialNumber string `json:"serialNumber,omitempty"`
	// Zones are all zones if empty.
	Zones []string `json:"zones,omitempty"`
}

// Block is a device on the shelf, or Count equal ones.
type Block struct {
	ID string `json:"id"`
	// Count, if not 0, makes that many blocks: ID-1, ID-2, ...
	Count int `json:"count,omitempty"`
	// Kind is "Processor" (also if empty) or "PCIeDevice".
	Kind         string `json:"kind,omitempty"`
	Manufacturer string `json:"manufacturer,omitempty"`
	Model        string `json:"model,omitempty"`
	PartNumber   string `json:"partNumber,omitempty"`
	// SerialNumber and UUID are made from the ID if empty, always the same.
	SerialNumber string `json:"serialNumber,omitempty"`
	UUID         string `json:"uuid,omitempty"`
	MemoryMiB    int64  `json:"memoryMiB,omitempty"`
	// Zones are all zones if empty.
	Zones []string `json:"zones,omitempty"`
	// Host is where the block is attached at the start; empty: nowhere.
	Host string `json:"host,omitempty"`
	// Reserved says that somebody has reserved it at the start.
	Reserved bool `json:"reserved,omitempty"`
}

// The kinds of blocks.
const (
	KindProcessor  = "Processor"
	KindPCIeDevice = "PCIeDevice"
)

// Latency is how long things take; none if zero.
type Latency struct {
	// Request delays every request.
	Request Duration `json:"request,omitempty"`
	Attach  Duration `json:"attach,omitempty"`
	Detach  Duration `json:"detach,omitempty"`
	// Appear is the time from the end of an attach to the moment the host sees the device.
	Appear Duration `json:"appear,omitempty"`
}

// Limits are how many operations (attach or detach) the service bears at once; 0: any number. It answers 503 beyond.
type Limits struct {
	Concurrent int `json:"concurrent,omitempty"`
	PerHost    int `json:"perHost,omitempty"`
	// RetryAfter is what the client is told to wait; one second if 0. Redfish has whole seconds here.
	RetryAfter Duration `json:"retryAfter,omitempty"`
}

// The features that can be left out.
const (
	// FeatureActions are AddResourceBlock and RemoveResourceBlock; without them there is PATCH of the system.
	FeatureActions = "actions"
	// FeatureActionInfo describes the parameters of the actions.
	FeatureActionInfo = "actionInfo"
	// FeatureExpand is $expand.
	FeatureExpand = "expand"
	// FeatureETags are ETags and conditional requests.
	FeatureETags = "etags"
	// FeatureReserve is CompositionStatus.Reserved.
	FeatureReserve = "reserve"
	// FeatureHostBlocks are the blocks of type ComputerSystem that tell the zones of the hosts.
	FeatureHostBlocks = "hostBlocks"
	// FeatureProcessorIdentity is UUID and SerialNumber of a processor. Without it they are at its PCIeDevice alone.
	FeatureProcessorIdentity = "processorIdentity"
)

var features = []string{
	FeatureActions, FeatureActionInfo, FeatureExpand, FeatureETags, FeatureReserve, FeatureHostBlocks,
	FeatureProcessorIdentity,
}

// Has tells whether a feature is not left out.
func (c *Config) Has(feature string) bool { return !slices.Contains(c.Without, feature) }

// Duration is a time.Duration that is written "1m30s" in YAML and JSON.
type Duration time.Duration

// UnmarshalJSON reads a string in the form of time.ParseDuration.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf(`%s is not a duration: write it as a string such as "2s" or "150ms"`, b)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil || parsed < 0 {
		return fmt.Errorf(`%q is not a duration: write it as "2s" or "150ms"`, text)
	}
	*d = Duration(parsed)
	return nil
}

// MarshalJSON writes the form of time.Duration.String.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// ParseConfig reads a description in YAML or JSON, fills in what is left to it and checks it. Errors name the object
// and the field.
func ParseConfig(text []byte) (Config, error) {
	var c Config
	err := oneDocument(text)
	if err == nil {
		err = document.Check(text, &c)
	}
	if err == nil {
		err = checkDurations(text)
	}
	if err == nil {
		err = yaml.UnmarshalStrict(text, &c)
	}
	if err != nil {
		return Config{}, fmt.Errorf("description of the fabric: %w", err)
	}
	return c.Complete()
}

// oneDocument refuses a second YAML document: only the first would be read. What is no
// YAML is left to whoever reads it.
func oneDocument(text []byte) error {
	decoder := goyaml.NewDecoder(bytes.NewReader(text))
	var first, second goyaml.Node
	if err := decoder.Decode(&first); err != nil {
		return nil //nolint:nilerror // See above.
	}
	err := decoder.Decode(&second)
	empty := len(second.Content) == 1 && second.Content[0].Tag == "!!null"
	if errors.Is(err, io.EOF) || err == nil && empty {
		return nil
	}
	return errors.New("there is a second YAML document; describe one shelf, in one document")
}

// checkDurations names the field of a duration that is none; the decoder does not. What
// else is wrong is left to the decoder.
func checkDurations(text []byte) error {
	var raw struct {
		Latency, Limits map[string]json.RawMessage
		Faults          []map[string]json.RawMessage
	}
	if err := yaml.Unmarshal(text, &raw); err != nil {
		return nil //nolint:nilerror // See above.
	}
	if err := durationsIn("latency.", raw.Latency, "request", "attach", "detach", "appear"); err != nil {
		return err
	}
	if err := durationsIn("limits.", raw.Limits, "retryAfter"); err != nil {
		return err
	}
	for i, fault := range raw.Faults {
		if err := durationsIn(fmt.Sprintf("faults[%d].", i), fault, faultDurations...); err != nil {
			return err
		}
	}
	return nil
}

var faultDurations = []string{"retryAfter", "after"}

// CheckFaultDurations names the field of a fault that is to be a duration and is none.
func CheckFaultDurations(fault map[string]json.RawMessage) error {
	return durationsIn("", fault, faultDurations...)
}

func durationsIn(path string, object map[string]json.RawMessage, fields ...string) error {
	for _, field := range fields {
		var d Duration
		if text, set := object[field]; set && string(text) != "null" {
			if err := d.UnmarshalJSON(text); err != nil {
				return fmt.Errorf("%s%s: %w", path, field, err)
			}
		}
	}
	return nil
}

// Complete returns the description with all defaults, and one block for each of a count.
func (c Config) Complete() (Config, error) {
	if c.Name == "" {
		c.Name = "kerf-redfish"
	}
	if len(c.Zones) == 0 {
		c.Zones = []string{"all"}
	}
	c.Hosts = slices.Clone(c.Hosts)
	for i := range c.Hosts {
		c.Hosts[i].fill(c.Zones)
	}
	var blocks []Block
	for i, b := range c.Blocks {
		if err := checkID(fmt.Sprintf("blocks[%d].id", i), b.ID, nil); err != nil {
			return Config{}, err
		}
		made, err := b.each(c.Zones)
		if err != nil {
			return Config{}, err
		}
		blocks = append(blocks, made...)
	}
	c.Blocks = blocks
	return c, c.check()
}

func (h *Host) fill(zones []string) {
	h.HostName = cmp.Or(h.HostName, h.ID)
	h.UUID = cmp.Or(h.UUID, MadeUUID("host", h.ID))
	h.SerialNumber = cmp.Or(h.SerialNumber, madeSerial("host", h.ID))
	if len(h.Zones) == 0 {
		h.Zones = zones
	}
}

// maxCount is how many blocks a few letters may stand for.
const maxCount = 10_000

func (b Block) each(zones []string) ([]Block, error) {
	switch {
	case b.Count < 0, b.Count > maxCount:
		return nil, fmt.Errorf("block %q: count is %d, want 0 to %d", b.ID, b.Count, maxCount)
	case b.Count > 0 && (b.UUID != "" || b.SerialNumber != ""):
		return nil, fmt.Errorf("block %q: a count of %d shares one uuid or serialNumber; leave them out, they are made from the id", b.ID, b.Count)
	case b.Count == 0:
		b.fill(zones)
		return []Block{b}, nil
	}
	var blocks []Block
	for i := range b.Count {
		one := b
		one.ID, one.Count = fmt.Sprintf("%s-%d", b.ID, i+1), 0
		one.fill(zones)
		blocks = append(blocks, one)
	}
	return blocks, nil
}

func (b *Block) fill(zones []string) {
	b.Kind = cmp.Or(b.Kind, KindProcessor)
	b.UUID = cmp.Or(b.UUID, MadeUUID("block", b.ID))
	b.SerialNumber = cmp.Or(b.SerialNumber, madeSerial("block", b.ID))
	if len(b.Zones) == 0 {
		b.Zones = zones
	}
}

// MadeUUID is the UUID of something of that kind and ID, always the same.
func MadeUUID(kind, id string) string {
	sum := sha256.Sum256([]byte(kind + "/" + id))
	sum[6] = sum[6]&0x0f | 0x80 // Version 8: made as the maker likes.
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func madeSerial(kind, id string) string {
	sum := sha256.Sum256([]byte(kind + "/" + id))
	return strings.ToUpper(fmt.Sprintf("SN%x", sum[16:22]))
}

func (c *Config) check() error {
	if len(c.Hosts) == 0 {
		return fmt.Errorf("hosts: there is none; name at least one")
	}
	for _, f := range c.Without {
		if !slices.Contains(features, f) {
			return fmt.Errorf("without: unknown feature %q, want one of %s", f, strings.Join(features, ", "))
		}
	}
	for field, n := range map[string]int{"pageSize": c.PageSize, "limits.concurrent": c.Limits.Concurrent, "limits.perHost": c.Limits.PerHost} {
		if n < 0 {
			return fmt.Errorf("%s is %d, want 0 or more", field, n)
		}
	}
	if err := c.checkHosts(); err != nil {
		return err
	}
	return c.checkBlocks()
}

func (c *Config) checkHosts() error {
	for i, zone := range c.Zones {
		if err := checkID(fmt.Sprintf("zones[%d]", i), zone, c.Zones[:i]); err != nil {
			return err
		}
	}
	var ids []string
	for i, h := range c.Hosts {
		if err := checkID(fmt.Sprintf("hosts[%d].id", i), h.ID, ids); err != nil {
			return err
		}
		if err := c.checkZones(fmt.Sprintf("host %q", h.ID), h.Zones); err != nil {
			return err
		}
		ids = append(ids, h.ID)
	}
	return nil
}

func (c *Config) checkBlocks() error {
	hosts := map[string]Host{}
	for _, h := range c.Hosts {
		hosts[h.ID] = h
	}
	var ids []string
	uuids := map[string]string{}
	for i, b := range c.Blocks {
		who := fmt.Sprintf("block %q", b.ID)
		if err := checkID(fmt.Sprintf("blocks[%d].id", i), b.ID, append(ids, slices.Collect(maps.Keys(hosts))...)); err != nil {
			return err
		}
		if b.Kind != KindProcessor && b.Kind != KindPCIeDevice {
			return fmt.Errorf("%s: kind is %q, want %s or %s", who, b.Kind, KindProcessor, KindPCIeDevice)
		}
		if b.MemoryMiB < 0 {
			return fmt.Errorf("%s: memoryMiB is %d, want 0 or more", who, b.MemoryMiB)
		}
		if other, taken := uuids[b.UUID]; taken {
			return fmt.Errorf("%s: uuid %s is that of block %q", who, b.UUID, other)
		}
		if err := c.checkZones(who, b.Zones); err != nil {
			return err
		}
		if h, known := hosts[b.Host]; b.Host != "" && !known {
			return fmt.Errorf("%s: host %q is not one of hosts", who, b.Host)
		} else if known && !Overlap(b.Zones, h.Zones) {
			return fmt.Errorf("%s: host %q is in none of its zones", who, b.Host)
		}
		ids, uuids[b.UUID] = append(ids, b.ID), b.ID
	}
	return nil
}

// checkID accepts what can be a segment of a URL as it is.
func checkID(field, id string, taken []string) error {
	switch {
	case id == "":
		return fmt.Errorf("%s is missing", field)
	case url.PathEscape(id) != id || strings.Trim(id, ".") == "":
		return fmt.Errorf("%s is %q, want letters, digits, '-', '_' and '.' only", field, id)
	case slices.Contains(taken, id):
		return fmt.Errorf("%s is %q, which is taken by another", field, id)
	}
	return nil
}

func (c *Config) checkZones(who string, zones []string) error {
	for _, z := range zones {
		if !slices.Contains(c.Zones, z) {
			return fmt.Errorf("%s: zone %q is not one of zones (%s)", who, z, strings.Join(c.Zones, ", "))
		}
	}
	return nil
}

// Overlap tells whether two lists of zones share one.
func Overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
