// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package rack

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"

	"kerf.dev/kerf/fabric/redfish/description"
	"kerf.dev/kerf/fabric/redfish/service"
	"kerf.dev/kerf/sandbox/part"
)

// redfish is a simulated shelf of devices and the service that manages it. The
// devices, and what hosts see of them, are there whether or not the service runs.
type redfish struct {
	config      description.Config
	options     service.Options
	certificate tls.Certificate
	// authority is what clients trust, PEM.
	authority []byte
	// cable leads to the service. Its address stays when the service is started
	// again.
	cable *part.Link
	// saw is told the ID of a host that sees something else.
	saw func(host string)

	mu     sync.Mutex
	bus    map[string][]service.Device // what each host sees
	state  *service.State
	run    *service.Service
	server *service.Server
}

// redfishUser is the name of the user of the service.
const redfishUser = "kerf"

// newRedfish stocks a shelf.
func newRedfish(config description.Config, saw func(host string)) (*redfish, error) {
	// The service fills in what is left out: others want to know it, too.
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	if config, err = description.ParseConfig(text); err != nil {
		return nil, err
	}
	r := &redfish{config: config, bus: map[string][]service.Device{}, saw: saw}
	r.options = service.Options{Username: redfishUser, Password: rand.Text(), Observer: r.observe, Persist: r.persist}
	if r.certificate, r.authority, err = service.SelfSigned([]string{"127.0.0.1"}); err != nil {
		return nil, err
	}
	// It leads nowhere before the service is started.
	r.cable, err = part.NewLink("127.0.0.1:0")
	return r, err
}

// observe is called by the service, one sight after the other.
func (r *redfish) observe(sight service.Sight) {
	r.mu.Lock()
	r.bus[sight.Host] = sight.Devices
	r.mu.Unlock()
	r.saw(sight.Host)
}

// persist is what a file would keep.
func (r *redfish) persist(state service.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = &state
}

// start starts the service with what it has persisted. It fails with part.ErrRunning if
// it runs.
func (r *redfish) start(ctx context.Context) error {
	if r.service() != nil {
		return part.ErrRunning
	}
	options := r.options
	r.mu.Lock()
	options.State = r.state
	r.mu.Unlock()
	run, err := service.New(r.config, options)
	if err != nil {
		return fmt.Errorf("start the Redfish service: %w", err)
	}
	server, err := service.Listen(ctx, "127.0.0.1:0", run.Handler(), &r.certificate, log.New(io.Discard, "", 0))
	if err != nil {
		run.Close()
		return fmt.Errorf("start the Redfish service: %w", err)
	}
	r.cable.Aim(server.Address)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run, r.server = run, server
	return nil
}

// kill ends the service as a crash does: connections break, and operations that are
// going on never happened. It does nothing if the service does not run.
func (r *redfish) kill() error {
	r.mu.Lock()
	run, server := r.run, r.server
	r.run, r.server = nil, nil
	r.mu.Unlock()
	if run == nil {
		return nil
	}
	err := server.Kill()
	run.Close()
	return err
}

// hosts are the nodes of the hosts, by the IDs of these.
func (r *redfish) hosts() map[string]string {
	nodes := make(map[string]string, len(r.config.Hosts))
	for _, h := range r.config.Hosts {
		nodes[h.ID] = h.HostName
	}
	return nodes
}

// endpoint is where the service is reached.
func (r *redfish) endpoint() string { return "https://" + r.cable.Address() }

// close ends the service and takes the shelf away.
func (r *redfish) close() error { return errors.Join(r.kill(), r.cable.Close()) }

// service is the one that runs, nil if there is none.
func (r *redfish) service() *service.Service {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run
}

// sees returns what a host sees.
func (r *redfish) sees(host string) []service.Device {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bus[host]
}

// holds returns where each device is for the service.
func (r *redfish) holds() map[string]service.BlockState {
	if run := r.service(); run != nil {
		return run.State().Blocks
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != nil {
		return r.state.Blocks
	}
	blocks := map[string]service.BlockState{}
	for _, b := range r.config.Blocks {
		blocks[b.ID] = service.BlockState{Host: b.Host, Reserved: b.Reserved}
	}
	return blocks
}
