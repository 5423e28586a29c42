// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package part

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// run is a Setup whose run notes its name when it ends.
func run(name string, ended *[]string, err error) Setup {
	return func(ctx context.Context) (func() error, error) {
		return func() error {
			<-ctx.Done()
			*ended = append(*ended, name)
			return err
		}, nil
	}
}

func unexpected(t *testing.T) func(error) {
	return func(err error) { t.Errorf("a part has failed: %v", err) }
}

// TestTable: parts are found by name, errors say what is wrong, and the end comes in
// reverse, whatever goes wrong on the way.
func TestTable(t *testing.T) {
	var ended []string
	first := &Lasting{Name: "first", Failed: unexpected(t), Setup: run("first", &ended, nil)}
	second := &Lasting{Name: "second", Failed: unexpected(t), Setup: run("second", &ended, errors.New("it hurts"))}
	unready := &Lasting{Name: "unready", Failed: unexpected(t), Setup: run("unready", &ended, nil),
		Ready: func(context.Context) error { return errors.New("it takes too long") }}
	broken := &Lasting{Name: "broken", Failed: unexpected(t), Setup: func(context.Context) (func() error, error) {
		return nil, errors.New("it does not fit")
	}}
	link := &Linked{Name: "the linked one", Address: "127.0.0.1:0"}
	table := Table{{"one", first}, {"two", second}, {"three", unready}, {"four", broken}, {"five", link}}
	ctx := t.Context()
	for _, name := range []string{"one", "two"} {
		if err := table.Start(ctx, name, ""); err != nil {
			t.Fatal(err)
		}
	}
	for want, err := range map[string]error{
		"kill moon: there is no such part; the parts are one, two, three, four, five": table.Kill("moon", ""),
		"start one: it is running":                            table.Start(ctx, "one", ""),
		"start three: it takes too long":                      table.Start(ctx, "three", ""),
		"start four: broken: it does not fit":                 table.Start(ctx, "four", ""),
		"kill one: this part lives as long as the sandbox":    table.Kill("one", ""),
		"cut off one: this part lives as long as the sandbox": table.Cut("one"),
		"cut off five: it is not running":                     table.Cut("five"),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, err := range []error{table.Kill("five", ""), table.Reconnect("five"), table.Stop("four")} {
		if err != nil {
			t.Errorf("what does not run was not left alone: %v", err)
		}
	}
	if err := table.StopAll(); err == nil || err.Error() != "stop second: it hurts" {
		t.Errorf("at the end: %v", err)
	}
	if want := []string{"unready", "second", "first"}; !slices.Equal(ended, want) {
		t.Errorf("they ended in the order %v, want %v", ended, want)
	}
}

// TestFailure: a part that ends by itself is told of, one that is stopped or killed is not.
func TestFailure(t *testing.T) {
	failures, end := make(chan error, 1), make(chan error)
	p := &Lasting{Name: "etcd", Failed: func(err error) { failures <- err }, Setup: func(context.Context) (func() error, error) {
		return func() error { return <-end }, nil
	}}
	for want, err := range map[string]error{"etcd ended by itself": nil, "etcd failed: it hurts": errors.New("it hurts")} {
		if err := p.Start(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		end <- err
		if got := <-failures; got.Error() != want {
			t.Errorf("got %v, want %s", got, want)
		}
		if got := p.Stop(); (got == nil) != (err == nil) {
			t.Errorf("stop: %v, want that it failed with %v", got, err)
		}
	}
}

// TestLinked: a part is cut off and killed in the middle of its work, and starts anew.
func TestLinked(t *testing.T) {
	other, err := NewLink(echo(t, 'b'))
	if err != nil {
		t.Fatal(err)
	}
	addresses, gone := make(chan string, 1), 0
	var severed bool
	p := &Linked{
		Name: "scheduler", Address: echo(t, 'a'), Failed: unexpected(t),
		Gone: func() { gone++ }, Other: func() *Link { return other },
		Setup: func(ctx context.Context, address string) (func() error, error) {
			addresses <- address
			return func() error {
				<-ctx.Done()
				severed = ask(t, other.Address()) == 0
				return nil
			}, nil
		},
	}
	start := func() string {
		t.Helper()
		must(t, p.Start(t.Context(), ""))
		if err := p.Start(t.Context(), ""); !errors.Is(err, ErrRunning) {
			t.Errorf("it was started twice: %v", err)
		}
		return <-addresses
	}
	expect := func(address string, want byte, connected bool) {
		t.Helper()
		if got := ask(t, address); got != want || p.Connected() != connected {
			t.Errorf("the API server answers %q, want %q; connected is %t", got, want, p.Connected())
		}
	}
	address := start()
	expect(address, 'a', true)
	must(t, p.Cut())
	expect(address, 0, false)
	must(t, p.Reconnect())
	expect(address, 'a', true)
	looked := 0
	p.While(func() { looked++ })
	must(t, p.Kill(""))
	p.While(func() { looked++ })
	if gone != 2 || looked != 1 || !severed {
		t.Errorf("gone %d times, want 2; looked at %d times, want 1; the other link was severed: %t", gone, looked, severed)
	}
	expect(other.Address(), 'b', false)

	expect(start(), 'a', true)
	must(t, p.Stop())
	if severed {
		t.Error("the other link was severed when it stopped in good order")
	}
	must(t, other.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestKillOfTheHasty: a part that ends because its link is broken has not failed.
func TestKillOfTheHasty(t *testing.T) {
	broken := make(chan struct{})
	p := &Linked{Name: "scheduler", Address: echo(t, 'a'), Failed: unexpected(t)}
	p.Setup = func(context.Context, string) (func() error, error) {
		return func() error {
			<-broken
			return errors.New("no connection")
		}, nil
	}
	p.Gone = func() {
		close(broken)
		<-p.run.done
	}
	must(t, p.Start(t.Context(), ""))
	if err := p.Kill(""); err == nil || err.Error() != "stop scheduler: no connection" {
		t.Errorf("kill: %v, want what it ended with", err)
	}
	if p.Connected() {
		t.Error("it still runs")
	}
}
