// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/kube/rules"
	"kerf.dev/kerf/selector"
	"kerf.dev/kerf/show"
	"kerf.dev/kerf/simulate"
)

// inputFlags say what a command looks at.
type inputFlags struct {
	*app
	files  []string
	redact bool
}

func (f *inputFlags) add(command *cobra.Command) {
	command.Flags().StringSliceVarP(&f.files, "filename", "f", nil,
		`read a dump or manifests instead of the cluster: files, directories, or "-" for standard input`)
}

func (f *inputFlags) addRedact(command *cobra.Command) {
	command.Flags().BoolVar(&f.redact, "redact", false, "name claims of the namespace of -n only; count all others")
}

// input is what was read.
type input struct {
	dump      *dump.Dump
	files     *files // nil for a cluster
	namespace string
	live      bool // read from a cluster, perhaps with files above
}

// read reads the files, or the cluster if there are none.
func (f *inputFlags) read(ctx context.Context) (*input, error) {
	if len(f.files) > 0 {
		return f.readFiles(ctx)
	}
	d, err := f.cluster(ctx)
	if err != nil {
		return nil, err
	}
	namespace, err := f.namespace(false)
	if err != nil {
		return nil, err
	}
	return &input{dump: d, namespace: namespace, live: true}, nil
}

func (f *inputFlags) readFiles(ctx context.Context) (*input, error) {
	set, err := f.manifests(ctx)
	if err != nil {
		return nil, err
	}
	return f.take(ctx, set, dump.New())
}

func (f *inputFlags) manifests(ctx context.Context) (*manifest.Set, error) {
	return readManifests(ctx, f.In, once(f.files))
}

// take reads what the files have as a cluster would that has what is below.
func (f *inputFlags) take(ctx context.Context, set *manifest.Set, below *dump.Dump) (*input, error) {
	namespace, err := f.namespace(true)
	if err != nil {
		return nil, err
	}
	visible := func(of string) bool { return !f.redact || of == "" || of == namespace }
	files, err := load(ctx, set, namespace, below, visible)
	if err != nil {
		return nil, err
	}
	if files.hidden > 0 {
		say(f.ErrOut, "note: %s of other namespaces left out, as an API server refuses them; without --redact they are named",
			counted(files.hidden, "object"))
	}
	for _, object := range files.ignored {
		say(f.ErrOut, "note: %s is ignored", object)
	}
	f.tellKnown("dump", files.known)
	return &input{dump: files.dump, files: files, namespace: namespace}, nil
}

// tellKnown notes that what a dump or the cluster has counts, and not the
// manifest.
func (f *inputFlags) tellKnown(where string, objects []string) {
	const shown = 3
	more := ""
	if n := len(objects) - shown; n > 1 {
		objects, more = objects[:shown], fmt.Sprintf(" and %d more", n)
	}
	if len(objects) > 0 {
		say(f.ErrOut, "note: the %s has %s%s already; the manifests of these are not looked at", where, strings.Join(objects, ", "), more)
	}
}

// once leaves out repetitions. For completion cobra parses flags twice, and so
// has every file twice.
func once(paths []string) []string {
	var found []string
	for _, path := range paths {
		if !slices.Contains(found, path) {
			found = append(found, path)
		}
	}
	return found
}

// world is what the input is explained with.
func (f *inputFlags) world(in *input) *show.World {
	options := simulate.Options{Matcher: selector.New(), Quotas: rules.NewQuotas(in.dump.ResourceQuotas, in.dump.DeviceClasses)}
	w := &show.World{World: simulate.NewWorld(&in.dump.Objects, options), Blind: blind(in.dump), Fabrics: in.unpublished()}
	if f.redact {
		w.Visible = func(namespace string) bool { return namespace == in.namespace }
	}
	return w
}

// unpublished are the fabrics of manifests that have no slices in the input.
func (in *input) unpublished() []string {
	if in.files == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(in.files.fabrics), func(name string) bool {
		return slices.ContainsFunc(in.dump.ResourceSlices, func(s *resourceapi.ResourceSlice) bool {
			return s.Spec.Pool.Name == inventory.FabricPool(name)
		})
	})
}

// position is that of an object in the files, without an object where it is in none.
func (in *input) position(object string) position {
	if in.files == nil {
		return position{}
	}
	return in.files.sources[object]
}

// after is the dump of a world in which pods were placed.
func (in *input) after(w *show.World) *dump.Dump {
	d := dump.New()
	d.Metadata.Name, d.Missing, d.Objects = in.dump.Metadata.Name, in.dump.Missing, *w.Objects()
	return d
}
