// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kerf.dev/kerf/dump"
)

// world is a cluster with claims in two namespaces.
func world() *fake.Clientset {
	return fake.NewClientset(
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}},
		&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}},
		&resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}},
		&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: "team-a"}},
		&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: "team-b"}},
	)
}

// refuse makes a client fail to list a resource, everywhere or outside of a
// namespace.
func refuse(client *fake.Clientset, resource, butIn string, err error) {
	client.PrependReactor("list", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		if butIn != "" && action.GetNamespace() == butIn {
			return false, nil, nil
		}
		return true, nil, err
	})
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(resourceapi.Resource(resource), "", fmt.Errorf("no"))
}

func TestGather(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*fake.Clientset)
		claims  []string
		missing []dump.Gap
		blind   bool
		failed  string
	}{
		{name: "everything", change: func(*fake.Clientset) {}, claims: []string{"team-a/mine", "team-b/theirs"}},
		{
			name:   "claims of one namespace",
			change: func(c *fake.Clientset) { refuse(c, "resourceclaims", "team-a", forbidden("resourceclaims")) },
			claims: []string{"team-a/mine"}, missing: []dump.Gap{{Resource: "resourceclaims", OnlyIn: "team-a"}}, blind: true,
		},
		{
			name:   "no nodes",
			change: func(c *fake.Clientset) { refuse(c, "nodes", "", forbidden("nodes")) },
			claims: []string{"team-a/mine", "team-b/theirs"}, missing: []dump.Gap{{Resource: "nodes"}},
		},
		{
			name: "no taint rules",
			change: func(c *fake.Clientset) {
				refuse(c, "devicetaintrules", "", apierrors.NewNotFound(resourceapi.Resource("devicetaintrules"), ""))
			},
			claims:  []string{"team-a/mine", "team-b/theirs"},
			missing: []dump.Gap{{Resource: "devicetaintrules", NotServed: true}},
		},
		{
			name: "an old cluster",
			change: func(c *fake.Clientset) {
				refuse(c, "resourceslices", "", apierrors.NewNotFound(resourceapi.Resource("resourceslices"), ""))
			},
			failed: "the cluster does not serve resourceslices of resource.k8s.io/v1, which kerf needs",
		},
		{
			name:   "no answer",
			change: func(c *fake.Clientset) { refuse(c, "pods", "", fmt.Errorf("connection refused")) },
			failed: "list pods: connection refused",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := world()
			test.change(client)
			d, err := gather(t.Context(), client, "team-a")
			onlyReads(t, client)
			if test.failed != "" {
				if err == nil || !strings.Contains(err.Error(), test.failed) {
					t.Fatalf("error %v, want %q", err, test.failed)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var claims []string
			for _, c := range d.ResourceClaims {
				claims = append(claims, c.Namespace+"/"+c.Name)
			}
			if diff := cmp.Diff(test.claims, claims); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.missing, d.Missing); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
			if got := blind(d); got != test.blind {
				t.Errorf("blind is %v, want %v", got, test.blind)
			}
		})
	}
}

// onlyReads expects that nothing but lists was asked for.
func onlyReads(t *testing.T, client *fake.Clientset) {
	t.Helper()
	for _, action := range client.Actions() {
		if action.GetVerb() != "list" {
			t.Errorf("unexpected request: %s %s", action.GetVerb(), action.GetResource().Resource)
		}
	}
}

// TestGatherPages answers two pages, the second of which is too old once.
func TestGatherPages(t *testing.T) {
	client := world()
	page := func(name, next string) *v1.NodeList {
		return &v1.NodeList{ListMeta: metav1.ListMeta{Continue: next}, Items: []v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: name}}}}
	}
	asked := 0
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		switch asked {
		case 1:
			return true, page("old", "next"), nil
		case 2:
			return true, nil, apierrors.NewResourceExpired("too old")
		case 3:
			return true, page("n1", "next"), nil
		}
		return true, page("n2", ""), nil
	})
	d, err := gather(t.Context(), client, "default")
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, n := range d.Nodes {
		nodes = append(nodes, n.Name)
	}
	if diff := cmp.Diff([]string{"n1", "n2"}, nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}
