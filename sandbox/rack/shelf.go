// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package rack

import (
	"errors"

	"kerf.dev/kerf/fabric/redfish/description"
	"kerf.dev/kerf/fabric/redfish/service"
)

// errNoShelf is the error of what needs a shelf.
var errNoShelf = errors.New("the sandbox has no shelf of devices")

// Redfish returns the running service of the shelf, to script faults for example, nil
// if there is none.
func (r *Rack) Redfish() *service.Service {
	if shelf := r.shelf(); shelf != nil {
		return shelf.service()
	}
	return nil
}

// Shelf describes the shelf, with all that the service has filled in. It is empty if
// there is none.
func (r *Rack) Shelf() description.Config {
	if shelf := r.shelf(); shelf != nil {
		return shelf.config
	}
	return description.Config{}
}

// ShelfState is where each device of the shelf is for the service, by the device's ID,
// whether or not the service runs.
func (r *Rack) ShelfState() (map[string]service.BlockState, error) {
	shelf := r.shelf()
	if shelf == nil {
		return nil, errNoShelf
	}
	return shelf.holds(), nil
}

// Sees returns what the host of that ID sees on its bus.
func (r *Rack) Sees(host string) ([]service.Device, error) {
	shelf := r.shelf()
	if shelf == nil {
		return nil, errNoShelf
	}
	if _, known := shelf.hosts()[host]; !known {
		return nil, errors.New("the shelf has no host " + host)
	}
	return shelf.sees(host), nil
}
