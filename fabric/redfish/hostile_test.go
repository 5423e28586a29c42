// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish"
	"kerf.dev/kerf/fabric/redfish/description"
)

const (
	root        = "/redfish/v1/"
	collections = "/redfish/v1/CompositionService/ResourceBlocks"
)

// endless writes text again and again until the client has gone, and returns how much of it that was.
func endless(w http.ResponseWriter, begin, text string) (written int64) {
	w.Header().Set("Content-Type", "application/json")
	n, err := io.WriteString(w, begin)
	written += int64(n)
	many := strings.Repeat(text, 1+(64<<10)/len(text))
	for err == nil {
		n, err = io.WriteString(w, many)
		written += int64(n)
	}
	return written
}

// pathed is a handler for one path.
func pathed(path string, answer func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, q *http.Request) bool {
		if strings.TrimSuffix(q.URL.Path, "/") != strings.TrimSuffix(path, "/") {
			return false
		}
		// A server learns that the client has gone when nothing of the request is left to read.
		_, _ = io.Copy(io.Discard, q.Body)
		answer(w, q)
		return true
	}
}

// TestEndlessAnswers has each answer that an inventory needs go on for ever. It costs no more than the limit that the
// error names.
func TestEndlessAnswers(t *testing.T) {
	for _, tc := range []struct {
		name, path, begin, text string
		status                  int
		want                    string
	}{
		{"root", root, `{"Name":"`, "x", 200, "more than 262144 bytes"},
		{"login", "/redfish/v1/SessionService/Sessions", `{"Name":"`, "x", 201, ""},
		{"collection", collections, `{"Name":"`, "x", 200, "an answer has more than 16777216 bytes"},
		{"spaces", collections, `{"Name":"`, " ", 200, "an answer has more than 16777216 bytes"},
		{"members", collections, `{"Members":[{"@odata.id":"/a"}`, `,{"@odata.id":"/a"}`, 200, "an answer has more than 16777216 bytes"},
		{"nested", collections, `{"Members":`, `[`, 200, "an answer has more than 16777216 bytes"},
		{"refusal", collections, `{"error":{"message":"`, "x", 400, "more than 65536 bytes"},
		{"failure", collections, ``, "x", 500, "more than 65536 bytes"},
		{"redirect", collections, ``, "x", 307, "more than 65536 bytes"},
		{"block", blocks + "gpu-1", `{"Name":"`, "x", 200, "an answer has more than 16777216 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config := shelf()
			config.Without = []string{description.FeatureExpand}
			r := newRig(t, config)
			var written atomic.Int64
			r.streaming(pathed(tc.path, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Auth-Token", "token")
				w.WriteHeader(tc.status)
				written.Add(endless(w, tc.begin, tc.text))
			}))
			_, err := r.Inventory(t.Context())
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			r.streaming(nil)
			r.server.CloseClientConnections()
			// What lies in sockets was written, but not read.
			if got := written.Load(); got > 40<<20 {
				t.Errorf("%d bytes were taken", got)
			}
		})
	}
}

// TestTooMuch has the service answer what is well-formed and too much of something.
func TestTooMuch(t *testing.T) {
	member := func(n int) string { return fmt.Sprintf(`{"@odata.id":"/m/%d"}`, n) }
	many := func(n int, one func(int) string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(one(i))
		}
		return b.String()
	}
	pages := 0
	page := func(members int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			pages++
			_, _ = fmt.Fprintf(w, `{"Members":[%s],"Members@odata.nextLink":"%s?page=%d"}`,
				many(members, func(i int) string { return member(pages*members + i) }), collections, pages)
		}
	}
	body := func(text string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	const gpu = `{"@odata.id":"/gpu","Processors":[]`
	for _, tc := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request)
		want   string
	}{
		{"empty pages", page(0), "a collection has more than 1024 pages"},
		{"pages of members", page(1000), "a collection has more than 16384 members"},
		{"members of a page", body(`{"Members":[` + many(1<<16, member) + `]}`), "a list has more than 16384 entries"},
		{"nothings", body(`{"Members":[` + many(1<<20, func(int) string { return "0" }) + `]}`), "a list has more than 16384 entries"},
		{"parts", body(`{"Members":[{"@odata.id":"/gpu","Processors":[` + many(1<<18, func(int) string { return "{}" }) + `]}]}`),
			"a list has more than 16384 entries"},
		{"links", body(`{"Members":[` + gpu + `,"Links":{"Zones":[` + many(1<<16, member) + `]}}]}`), "a list has more than 16384 entries"},
		{"a long name", body(`{"Members":[{"@odata.id":"/` + strings.Repeat("x", 2000) + `","Processors":[]}]}`), "has more than 1024 bytes"},
		{"a long property", body(`{"Members":[{"@odata.id":"/gpu","Processors":[{"UUID":"` + strings.Repeat("x", 2000) + `","Model":""}]}]}`),
			"a property of device /gpu has more than 1024 bytes"},
		{"systems in zones", body(`{"Members":[{"@odata.id":"/gpu","Processors":[],"ComputerSystems":[` + many(10000, member) +
			`],"Links":{"Zones":[` + many(10000, member) + `]}}]}`), "systems are in zones more than 1048576 times"},
		{"blocks in zones", body(`{"Members":[` + many(70, func(i int) string {
			return fmt.Sprintf(`{"@odata.id":"/gpu-%d","Processors":[],"Links":{"Zones":[%s]}}`, i, many(15000, func(int) string { return "{}" }))
		}) + `]}`), "resource blocks are in zones more than 1048576 times"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, shelf())
			r.streaming(pathed(collections, tc.answer))
			_, err := r.Inventory(t.Context())
			if late := (*fabric.LimitError)(nil); !errors.As(err, &late) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %.300v, want a limit: %q", err, tc.want)
			}
			r.streaming(nil)
			if _, err := r.Inventory(t.Context()); err != nil {
				t.Errorf("the next inventory, of a service that is well again: %v", err)
			}
		})
	}
}

// TestTooDeep has an answer be lists of lists of lists.
func TestTooDeep(t *testing.T) {
	r := newRig(t, shelf())
	r.streaming(pathed(collections, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"Members":`+strings.Repeat("[", 1<<20)+strings.Repeat("]", 1<<20)+`}`)
	}))
	if _, err := r.Inventory(t.Context()); err == nil || !strings.Contains(err.Error(), "exceeded max depth") {
		t.Errorf("error %v, want one about depth", err)
	}
}

// TestAllAnswersAreLimited adds up answers that are small enough each, of one call.
func TestAllAnswersAreLimited(t *testing.T) {
	config := shelf()
	config.Without = []string{description.FeatureExpand}
	r := newRig(t, config)
	many := strings.Repeat(" ", 1<<20)
	r.streaming(func(w http.ResponseWriter, q *http.Request) bool {
		if number, ok := strings.CutPrefix(q.URL.Path, "/block/"); ok {
			_, _ = fmt.Fprintf(w, `{"@odata.id":%q,"@odata.etag":"1","Processors":[]%s}`, "/block/"+number, many)
			return true
		}
		return pathed(collections, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"Members":[{"@odata.id":"/block/0"}`)
			for i := range 200 {
				_, _ = fmt.Fprintf(w, `,{"@odata.id":"/block/%d"}`, i+1)
			}
			_, _ = io.WriteString(w, `]}`)
		})(w, q)
	})
	_, err := r.Inventory(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the answers of one call have more than 67108864 bytes") {
		t.Errorf("error %v, want a limit", err)
	}
}

// TestExpandedTooFar reads a collection that is too large for one answer member by member.
func TestExpandedTooFar(t *testing.T) {
	r := newRig(t, shelf())
	r.streaming(func(w http.ResponseWriter, q *http.Request) bool {
		expanded := strings.Contains(q.URL.RawQuery, "expand")
		if expanded {
			endless(w, `{"Name":"`, "x")
		}
		return expanded
	})
	r.want("gpu-1", r.at("gpu-1"), "free")
}

// TestSlowAnswers ends calls that the service does not: that hang, or trickle.
func TestSlowAnswers(t *testing.T) {
	hang := func(_ http.ResponseWriter, q *http.Request) {
		<-q.Context().Done()
		panic(http.ErrAbortHandler) // Nothing is sent: an end without it would be an empty answer.
	}
	trickle := func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("X-Auth-Token", "token")
		w.Header().Set("Location", "/session")
		for q.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
		}
	}
	for name, slow := range map[string]func(http.ResponseWriter, *http.Request){"hangs": hang, "trickles": trickle} {
		for _, path := range []string{root, "/redfish/v1/SessionService/Sessions", collections, blocks + "gpu-1"} {
			t.Run(name+path, func(t *testing.T) {
				config := shelf()
				config.Without = []string{description.FeatureExpand}
				r := newRig(t, config, func(o *redfish.Options) { o.Timeout = 300 * time.Millisecond })
				r.streaming(pathed(path, slow))
				const want = "no answer in 300ms, which is all that one call may take"
				_, err := r.Inventory(t.Context())
				if late := (*fabric.LimitError)(nil); !errors.As(err, &late) || !strings.Contains(err.Error(), want) {
					t.Errorf("inventory: error %v, want %q", err, want)
				}
				if path == collections {
					return
				}
				if _, err := r.attach("gpu-1", "host-a"); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("attach: error %v, want %q", err, want)
				}
			})
		}
	}
}

// TestCredentialsStay has the service lead to another host, wherever it can name a place.
func TestCredentialsStay(t *testing.T) {
	var reached atomic.Int32
	stranger := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		w.Header().Set("X-Auth-Token", "token")
		w.WriteHeader(http.StatusCreated)
	}))
	stranger.TLS, stranger.Config.ErrorLog = newRig(t, shelf()).server.TLS, quiet
	stranger.StartTLS()
	t.Cleanup(stranger.Close)
	host := strings.TrimPrefix(stranger.URL, "https://")
	for _, at := range []string{"@" + host + "/x", stranger.URL + "/x", "//" + host + "/x", "/x@" + host, ".evil.example/x"} {
		for what, stream := range map[string]func(http.ResponseWriter, *http.Request) bool{
			"sessions": pathed(root, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintf(w, `{"@odata.id":"/redfish/v1","Links":{"Sessions":{"@odata.id":%q}}}`, at)
			}),
			"block": pathed(collections, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintf(w, `{"Members":[{"@odata.id":%q}]}`, at)
			}),
			"page": pathed(collections, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintf(w, `{"Members@odata.nextLink":%q}`, at)
			}),
			"action": pathed(systems+"host-a", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintf(w, `{"Actions":{"#ComputerSystem.AddResourceBlock":{"target":%q}}}`, at)
			}),
			"session": pathed("/redfish/v1/SessionService/Sessions", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Auth-Token", "token")
				w.Header().Set("Location", at)
				w.WriteHeader(http.StatusCreated)
			}),
			"monitor": pathed(systems+"host-a/Actions/ComputerSystem.AddResourceBlock", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", at)
				w.WriteHeader(http.StatusAccepted)
			}),
		} {
			t.Run(what+at, func(t *testing.T) {
				r := newRig(t, shelf())
				r.streaming(stream)
				_, _ = r.Inventory(t.Context()) // It may fail: the stranger counts.
				if operation, err := r.attach("gpu-1", "host-a"); err == nil {
					_, _ = r.Operation(t.Context(), operation.ID)
				}
				_ = r.Close(context.Background())
			})
		}
	}
	if got := reached.Load(); got > 0 {
		t.Errorf("%d requests went to a stranger", got)
	}
}

// TestSecretsAreNotSaidBack has a service put what it was sent into all that it says.
func TestSecretsAreNotSaidBack(t *testing.T) {
	const password = "hush-hush"
	basic := base64.StdEncoding.EncodeToString([]byte("kerf:" + password))
	for _, tc := range []struct {
		name   string
		answer func(w http.ResponseWriter, said string)
	}{
		{"refusal", func(w http.ResponseWriter, said string) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, said)
		}},
		{"long refusal", func(w http.ResponseWriter, said string) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, strings.Repeat("x", 296)+said)
		}},
		{"refused login", func(w http.ResponseWriter, said string) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, said)
		}},
		{"task", func(w http.ResponseWriter, said string) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = fmt.Fprintf(w, `{"@odata.id":"/task","TaskState":"Running","Messages":[{"Message":%q}]}`, said)
		}},
		{"link", func(w http.ResponseWriter, said string) {
			_, _ = fmt.Fprintf(w, `{"Systems":{"@odata.id":%q},"CompositionService":{"@odata.id":%q}}`, "/"+said, said)
		}},
		{"no HTTP", func(w http.ResponseWriter, said string) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = fmt.Fprintf(conn, "%s\r\n\r\n", said)
			_ = conn.Close()
		}},
	} {
		for _, basicAuth := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", tc.name, basicAuth), func(t *testing.T) {
				r := newRig(t, shelf(), func(o *redfish.Options) { o.Password, o.BasicAuth = password, basicAuth })
				r.streaming(func(w http.ResponseWriter, q *http.Request) bool {
					switch said := q.Header.Get("X-Auth-Token") + q.Header.Get("Authorization"); {
					case strings.HasSuffix(q.URL.Path, "/Sessions") && tc.name == "refused login":
						tc.answer(w, password)
					case strings.HasSuffix(q.URL.Path, "/Sessions"):
						w.Header().Set("X-Auth-Token", "tok-tok")
						w.Header().Set("Location", "/session")
						w.WriteHeader(http.StatusCreated)
					case said == "":
						return false
					default:
						tc.answer(w, said+" "+password)
					}
					return true
				})
				var told strings.Builder
				_, err := r.Inventory(t.Context())
				fmt.Fprintln(&told, err)
				operation, err := r.attach("gpu-1", "host-a")
				fmt.Fprintln(&told, operation, err)
				operation, err = r.Operation(t.Context(), "/task")
				fmt.Fprintln(&told, operation, err)
				for _, secret := range []string{password, "hush", basic, "tok-tok"} {
					if strings.Contains(told.String(), secret) {
						t.Errorf("%q is in what is told:\n%s", secret, told.String())
					}
				}
			})
		}
	}
}
