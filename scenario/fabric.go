// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/inventory"
)

// Fabrics is a backend with a shelf of devices that are attached to nodes on demand.
// Times are texts such as "1s", empty where a story does not say; whoever waits reads
// them.
type Fabrics interface {
	// Stock puts up the shelf.
	Stock(Shelf) error
	// Offer creates or changes a fabric that offers the devices of the shelf.
	Offer(Fabric) error
	// Place has a vendor's driver run on nodes.
	Place(VendorDriver) error
	// Script has an operation of the shelf's manager go wrong, or with an empty kind
	// none any more.
	Script(ShelfFault) error
	// Show has the drivers publish devices of the shelf otherwise than the shelf says.
	Show(ShelfLook) error
	// Models returns what fabrics say of their models, where something is wrong.
	Models() ([]FabricModel, error)
	// Attachments returns what is attached, or on its way, by name of the device.
	Attachments() ([]Attachment, error)
	// ShelfDevices returns where the devices of the shelf are.
	ShelfDevices() ([]ShelfDevice, error)
}

// Shelf is what a story says of a shelf.
type Shelf struct {
	Hosts []string
	// Zones are the hosts of each zone, empty where all are in one.
	Zones   map[string][]string
	Devices []ShelfItem
	// Attach, Detach and Appear are what these take.
	Attach, Detach, Appear string
	// Operations and PerHost are how many operations the manager bears at once, 0 for
	// any number.
	Operations, PerHost int
}

// ShelfItem is a device of a shelf. Host is where it is from the start.
type ShelfItem struct {
	Name, Model, Zone, Host string
	Memory                  resource.Quantity
}

// Fabric is what a story says of a fabric.
type Fabric struct {
	Name, Driver string
	// Models are those that it offers, empty for all on the shelf.
	Models []string
	Mode   string
	// Guards are nil where the story does not say.
	Guards                []string
	Timeout, Idle         string
	Operations, PerNode   int
	Templates, KeepsIdles bool
}

// VendorDriver is a driver on nodes, with the devices that each of them always had.
type VendorDriver struct {
	Name    string
	Nodes   []string
	Own     []ShelfItem
	Notices string
}

// ShelfFault is what goes wrong at the shelf's manager.
type ShelfFault struct {
	Kind, Operation, Device, Host, To, After string
	Nth, Times                               int
}

// ShelfLook is how drivers publish devices of a shelf, with the device's name for the first.
type ShelfLook struct {
	Names  []string
	Device resourceapi.Device
	// Without are attributes and capacity that are not published, Sets the counter sets
	// that each of the devices brings with it.
	Without []string
	Sets    []resourceapi.CounterSet
}

// FabricModel is what a fabric says of a model: which of its devices are not offered, and
// why.
type FabricModel struct {
	Fabric, Name, Message string
	Withheld              []string
}

// Attachment is a device that is attached, or on its way.
type Attachment struct {
	Device, Node string
	// Namespace and Claim are empty for a device that was found attached.
	Namespace, Claim string
	Phase, Reason    string
	// Target is POOL/DEVICE, as the node's driver calls it.
	Target string
}

// ShelfDevice is where a device of the shelf is.
type ShelfDevice struct {
	Name, UUID string
	// Host is where it is for the manager, SeenBy the host that has it on its bus.
	Host, SeenBy string
}

// Defaults of the devices in stories.
const (
	defaultModel  = "A100"
	defaultMemory = "40Gi"
)

func (t *telling) fabrics() (Fabrics, error) {
	fabrics, ok := t.backend.(Fabrics)
	if !ok {
		return nil, fmt.Errorf("%s has no fabrics; write [sandbox] before the verb", t.backend.Name())
	}
	return fabrics, nil
}

// doShelf reads "shelf HOST... [CLAUSE]..." with devices and zones.
func doShelf(t *telling, c call) (string, error) {
	fabrics, err := t.fabrics()
	if err != nil {
		return "", err
	}
	lead, clauses := cutClauses(c.words, "attach", "detach", "appear", "operations", "per-host")
	s := Shelf{Zones: map[string][]string{}}
	if s.Hosts, err = expandWords(lead); err != nil {
		return "", err
	}
	for _, cl := range clauses {
		if err := s.add(cl); err != nil {
			return "", err
		}
	}
	for _, l := range c.body {
		if err := s.addLine(l); err != nil {
			return "", fmt.Errorf("line %d: %w", l.number, err)
		}
	}
	return "", fabrics.Stock(s)
}

func (s *Shelf) add(c clause) (err error) {
	switch c.keyword {
	case "attach":
		s.Attach, err = c.one()
	case "detach":
		s.Detach, err = c.one()
	case "appear":
		s.Appear, err = c.one()
	case "operations":
		s.Operations, err = c.count()
	case "per-host":
		s.PerHost, err = c.count()
	}
	return err
}

func (s *Shelf) addLine(l line) error {
	switch w := l.words; {
	case w[0].is("zone") && len(w) > 2:
		hosts, err := expandWords(w[2:])
		s.Zones[w[1].text] = append(s.Zones[w[1].text], hosts...)
		return err
	case w[0].is("device"):
		items, err := parseItems(w[1:])
		s.Devices = append(s.Devices, items...)
		return err
	default:
		return fmt.Errorf("%s: want a line that begins with device or zone", w[0].text)
	}
}

// parseItems reads "NAME... [model MODEL] [memory AMOUNT] [zone ZONE] [at HOST]".
func parseItems(words []word) ([]ShelfItem, error) {
	lead, clauses := cutClauses(words, "model", "memory", "zone", "at")
	names, err := expandWords(lead)
	if err != nil {
		return nil, err
	}
	item := ShelfItem{Model: defaultModel, Memory: resource.MustParse(defaultMemory)}
	for _, cl := range clauses {
		text, err := cl.one()
		if err != nil {
			return nil, err
		}
		switch cl.keyword {
		case "model":
			item.Model = text
		case "memory":
			if item.Memory, err = inventory.ParseQuantity(text); err != nil {
				return nil, fmt.Errorf("memory %s: %w", text, err)
			}
		case "zone":
			item.Zone = text
		case "at":
			item.Host = text
		}
	}
	var items []ShelfItem
	for _, item.Name = range names {
		items = append(items, item)
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("device: want a name")
	}
	return items, nil
}

// doFabric reads "fabric NAME of DRIVER [CLAUSE]...".
func doFabric(t *telling, c call) (string, error) {
	fabrics, err := t.fabrics()
	if err != nil {
		return "", err
	}
	f := Fabric{}
	var clauses []clause
	f.Name, clauses, err = c.nameAndClauses("of", "models", "mode", "guards", "timeout", "idle", "operations", "per-node", "templates")
	if err != nil {
		return "", err
	}
	for _, cl := range clauses {
		if err := f.add(cl); err != nil {
			return "", err
		}
	}
	if f.Driver == "" {
		return "", c.misused()
	}
	return "", fabrics.Offer(f)
}

func (f *Fabric) add(c clause) (err error) {
	switch c.keyword {
	case "of":
		f.Driver, err = c.one()
	case "models":
		f.Models, err = c.names()
	case "mode":
		f.Mode, err = c.one()
	case "guards":
		f.Guards, err = c.names()
		if slices.Equal(f.Guards, []string{"none"}) {
			f.Guards = []string{}
		}
	case "timeout":
		f.Timeout, err = c.one()
	case "idle":
		f.Idle, err = c.one()
		if f.Idle == "never" {
			f.Idle, f.KeepsIdles = "", true
		}
	case "operations":
		f.Operations, err = c.count()
	case "per-node":
		f.PerNode, err = c.count()
	case "templates":
		f.Templates = true
	}
	return err
}

// count returns the only word of a clause, a small number.
func (c clause) count() (int, error) {
	n, err := c.number()
	return int(n), err
}

// doDriver reads "driver NAME on NODE... [notices TIME]" with the nodes' own devices.
func doDriver(t *telling, c call) (string, error) {
	fabrics, err := t.fabrics()
	if err != nil {
		return "", err
	}
	name, clauses, err := c.nameAndClauses("on", "notices")
	if err != nil {
		return "", err
	}
	d := VendorDriver{Name: name}
	for _, cl := range clauses {
		if cl.keyword == "on" {
			d.Nodes, err = cl.names()
		} else {
			d.Notices, err = cl.one()
		}
		if err != nil {
			return "", err
		}
	}
	for _, l := range c.body {
		if !l.words[0].is("device") {
			return "", fmt.Errorf("line %d: %s: want a line that begins with device", l.number, l.words[0].text)
		}
		items, err := parseItems(l.words[1:])
		if err != nil {
			return "", fmt.Errorf("line %d: %w", l.number, err)
		}
		d.Own = append(d.Own, items...)
	}
	return "", fabrics.Place(d)
}

// doShow reads "show DEVICE... [ATTRIBUTE=VALUE]... [CLAUSE]... [without NAME...]" with
// counter sets.
func doShow(t *telling, c call) (string, error) {
	fabrics, err := t.fabrics()
	if err != nil {
		return "", err
	}
	words, clauses := cutClauses(c.words, "without")
	var look ShelfLook
	for _, cl := range clauses {
		if look.Without, err = cl.names(); err != nil {
			return "", err
		}
	}
	devices, err := parseDevices(words)
	if err != nil {
		return "", err
	}
	for i := range devices {
		look.Names = append(look.Names, devices[i].Name)
	}
	look.Device = devices[0]
	for _, l := range c.body {
		if w := l.words; !w[0].is("counters") || len(w) < 3 {
			return "", fmt.Errorf("line %d: %s: want a line that begins with counters", l.number, w[0].text)
		}
		counters, err := parseCounters(l.words[2:])
		if err != nil {
			return "", fmt.Errorf("line %d: %w", l.number, err)
		}
		look.Sets = append(look.Sets, resourceapi.CounterSet{Name: l.words[1].text, Counters: counters})
	}
	return "", fabrics.Show(look)
}

// doFault reads "fault KIND [DEVICE] [CLAUSE]..." or "fault none".
func doFault(t *telling, c call) (string, error) {
	fabrics, err := t.fabrics()
	if err != nil {
		return "", err
	}
	lead, clauses := cutClauses(c.words, "on", "at", "to", "after", "nth", "times")
	f := ShelfFault{}
	switch len(lead) {
	case 1:
		f.Kind = lead[0].text
	case 2:
		f.Kind, f.Device = lead[0].text, lead[1].text
	default:
		return "", c.misused()
	}
	for _, cl := range clauses {
		text, err := cl.one()
		if err != nil {
			return "", err
		}
		switch cl.keyword {
		case "on":
			f.Operation = text
		case "at":
			f.Host = text
		case "to":
			f.To = text
		case "after":
			f.After = text
		case "nth":
			f.Nth, err = strconv.Atoi(text)
		case "times":
			f.Times, err = strconv.Atoi(text)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %q is not a number", cl.keyword, text)
		}
	}
	if f.Kind == "none" {
		f = ShelfFault{}
	}
	return "", fabrics.Script(f)
}

// uuidOf is the identity that a driver publishes, "" if there is none.
func uuidOf(d *resourceapi.Device) string {
	if value := d.Attributes["uuid"].StringValue; value != nil {
		return strings.ToLower(*value)
	}
	return ""
}
