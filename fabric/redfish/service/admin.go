// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"kerf.dev/kerf/fabric/redfish/description"
)

// AdminHandler lets a person play the devil by hand, without credentials, from the machine itself only:
//
//	GET    /hosts                       what each host sees
//	GET    /stats                       what clients have asked for
//	GET    /faults                      the script of faults
//	POST   /faults                      adds a fault; the body is a Fault in JSON
//	DELETE /faults                      ends the script
//	POST   /blocks/{block}/vanish       takes the device off the bus
//	POST   /blocks/{block}/repair       puts it back
//	POST   /blocks/{block}/reserve      reserves the block as another client would; release gives it back
//	POST   /sessions/expire             logs all clients out
//
// Requests that change something must have the content type application/json, so that no page in a browser can send
// them.
func (s *Service) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hosts", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		all := s.shelf.sightOfAll()
		s.mu.Unlock()
		show(w, all)
	})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { show(w, s.Stats()) })
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { show(w, s.Faults()) })
	mux.HandleFunc("DELETE /faults", func(w http.ResponseWriter, _ *http.Request) {
		s.ClearFaults()
		show(w, s.Faults())
	})
	mux.HandleFunc("POST /faults", s.postFault)
	mux.HandleFunc("POST /sessions/expire", func(w http.ResponseWriter, _ *http.Request) {
		s.ExpireSessions()
		w.WriteHeader(http.StatusNoContent)
	})
	for verb, do := range map[string]func(string) error{
		"vanish": s.Vanish, "repair": s.Repair,
		"reserve": func(id string) error { return s.Reserve(id, true) },
		"release": func(id string) error { return s.Reserve(id, false) },
	} {
		mux.HandleFunc("POST /blocks/{block}/"+verb, func(w http.ResponseWriter, r *http.Request) {
			if err := do(r.PathValue("block")); err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}
	return localOnly(mux)
}

func (s *Service) postFault(w http.ResponseWriter, r *http.Request) {
	f, err := readFault(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = s.AddFault(f)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	show(w, s.Faults())
}

// readFault reads one fault in JSON. Its errors say what a fault looks like.
func readFault(from io.Reader) (description.Fault, error) {
	text, err := io.ReadAll(from)
	if err != nil {
		return description.Fault{}, err
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) == nil {
		if err := description.CheckFaultDurations(fields); err != nil {
			return description.Fault{}, fmt.Errorf("fault: %w", err)
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var f description.Fault
	if err := decoder.Decode(&f); err != nil {
		return description.Fault{}, fmt.Errorf(`fault: want one in JSON, such as {"kind": "busy", "operation": "attach"}: %w`, err)
	}
	if _, more := decoder.Token(); more != io.EOF {
		return description.Fault{}, fmt.Errorf("there is more after the fault; send one at a time")
	}
	return f, nil
}

func show(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	// An error here is the client's, who has gone.
	_ = encoder.Encode(value)
}

// localOnly admits programs on this machine: requests from a loopback address to a loopback address by number or as
// localhost (not by a name that somebody else's DNS points here), and changes only in JSON, which a page of another
// site cannot send.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		remote, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !remote.Addr().Unmap().IsLoopback() || !isLoopbackHost(r.Host) {
			http.Error(w, "this is for programs on the same machine", http.StatusForbidden)
			return
		}
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method != http.MethodGet && kind != "application/json" {
			http.Error(w, "send Content-Type: application/json", http.StatusUnsupportedMediaType)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLoopbackHost(hostPort string) bool {
	host := hostPort
	if h, _, err := net.SplitHostPort(hostPort); err == nil {
		host = h
	}
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.Unmap().IsLoopback()
}

// Vanish takes a device off the bus of whatever host sees it. It stays composed, and is unhealthy until repaired.
func (s *Service) Vanish(blockID string) error {
	return s.change(blockID, func(b *block) error {
		s.shelf.vanish(b)
		return nil
	})
}

// Repair makes a device that vanished, or never appeared, healthy again. Its host sees it if it is composed.
func (s *Service) Repair(blockID string) error {
	return s.change(blockID, func(b *block) error {
		b.broken, b.hidden = false, false
		s.shelf.see(b, b.host)
		return nil
	})
}

// Reserve sets or clears the reservation of a block as another client would.
func (s *Service) Reserve(blockID string, reserved bool) error {
	return s.change(blockID, func(b *block) error {
		b.reserved = reserved
		return nil
	})
}

// Compose puts a block on a host, or takes it away if host is empty, as an operator at another console would: at once,
// unless an operation works on it.
func (s *Service) Compose(blockID, hostID string) error {
	return s.change(blockID, func(b *block) error {
		h := s.shelf.hosts[hostID]
		switch {
		case hostID != "" && h == nil:
			return fmt.Errorf("there is no host %q", hostID)
		case b.work != nil:
			return fmt.Errorf("block %q: an operation is going on", blockID)
		case h != nil && !description.Overlap(b.Zones, h.Zones):
			return fmt.Errorf("block %q: host %q is in none of its zones", blockID, hostID)
		}
		b.compose(hostID)
		s.shelf.see(b, hostID)
		return nil
	})
}

// change does something to a block, with all that follows from a change.
func (s *Service) change(id string, do func(*block) error) error {
	defer s.tell()
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.shelf.blocks[id]
	if b == nil {
		return fmt.Errorf("there is no block %q", id)
	}
	err := do(b)
	if err == nil {
		s.changed()
	}
	return err
}
