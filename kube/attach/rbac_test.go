// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"
)

const rbacFile = "../../deploy/controller/rbac.yaml"

// deployed are the rules of the deployed roles, by name of the role.
var deployed = sync.OnceValues(func() (map[string][]rbacv1.PolicyRule, error) {
	text, err := os.ReadFile(rbacFile)
	if err != nil {
		return nil, err
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var role struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`

			Rules []rbacv1.PolicyRule `json:"rules"`
		}
		if err := yaml.Unmarshal(document, &role); err != nil {
			return nil, err
		}
		if role.Kind == "ClusterRole" || role.Kind == "Role" {
			rules[role.Kind+"/"+role.Name] = role.Rules
		}
	}
	return rules, nil
})

// guardedAPI refuses what the deployed roles do not permit, as an API server does.
func guardedAPI(t *testing.T, c client.WithWatch) client.WithWatch {
	t.Helper()
	roles, err := deployed()
	if err != nil {
		t.Fatal(err)
	}
	check := func(verb string, o runtime.Object, subresource, name string) error {
		err := permitted(c, roles, verb, o, subresource, name)
		if err != nil {
			t.Error(err)
		}
		return err
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if err := check("get", o, "", key.Name); err != nil {
				return err
			}
			return c.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
			if err := check("list", l, "", ""); err != nil {
				return err
			}
			return c.List(ctx, l, options...)
		},
		Watch: func(ctx context.Context, c client.WithWatch, l client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			if err := check("watch", l, "", ""); err != nil {
				return nil, err
			}
			return c.Watch(ctx, l, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if review, ok := o.(*authorizationv1.SelfSubjectAccessReview); ok {
				a := review.Spec.ResourceAttributes
				claim := &resourceapi.ResourceClaim{}
				review.Status.Allowed = a.Group == resourceapi.GroupName && a.Resource == "resourceclaims" &&
					permitted(c, roles, a.Verb, claim, a.Subresource, a.Name) == nil
				return nil
			}
			if err := check("create", o, "", o.GetName()); err != nil {
				return err
			}
			return c.Create(ctx, o, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if err := check("update", o, "", o.GetName()); err != nil {
				return err
			}
			return c.Update(ctx, o, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := check("delete", o, "", o.GetName()); err != nil {
				return err
			}
			return c.Delete(ctx, o, options...)
		},
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			return check("patch", o, "", o.GetName())
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, subresource string, o client.Object, options ...client.SubResourceUpdateOption) error {
			err := check("update", o, subresource, o.GetName())
			if claim, ok := o.(*resourceapi.ResourceClaim); ok && err == nil {
				err = driversOf(ctx, c, claim, func(driver string) error { return check("arbitrary-node:update", o, "driver", driver) })
			}
			if err != nil {
				return err
			}
			return c.SubResource(subresource).Update(ctx, o, options...)
		},
	})
}

// driversOf checks what a write of a claim's status changes: the entries of devices,
// each for its driver, and nothing that binds.
func driversOf(ctx context.Context, c client.Client, claim *resourceapi.ResourceClaim, check func(driver string) error) error {
	old := &resourceapi.ResourceClaim{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(claim), old); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(old.Status.Allocation, claim.Status.Allocation) ||
		!equality.Semantic.DeepEqual(old.Status.ReservedFor, claim.Status.ReservedFor) {
		return fmt.Errorf("claim %s: the allocation is changed", claim.Name)
	}
	for _, d := range claim.Status.Devices {
		if err := check(d.Driver); err != nil {
			return err
		}
	}
	return nil
}

// permitted asks the roles.
func permitted(c client.Client, roles map[string][]rbacv1.PolicyRule, verb string, o runtime.Object, subresource, name string) error {
	kind, err := apiutil.GVKForObject(o, c.Scheme())
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	resource := plural.Resource
	if subresource != "" {
		resource += "/" + subresource
	}
	for _, rules := range roles {
		for _, rule := range rules {
			if slices.Contains(rule.APIGroups, kind.Group) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb) &&
				(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, name)) {
				return nil
			}
		}
	}
	return fmt.Errorf("%s does not permit to %s %s %q of API group %q", rbacFile, verb, resource, name, kind.Group)
}

// TestNoWildcards looks at the deployed roles.
func TestNoWildcards(t *testing.T) {
	roles, err := deployed()
	if err != nil {
		t.Fatal(err)
	}
	if len(roles) != 4 {
		t.Errorf("%d roles, want 4", len(roles))
	}
	for name, rules := range roles {
		for _, rule := range rules {
			all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.ResourceNames)
			if slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "*") }) {
				t.Errorf("%s has a wildcard: %v", name, rule)
			}
			if slices.Contains(rule.Resources, "secrets") && (len(rule.ResourceNames) == 0 || !slices.Equal(rule.Verbs, []string{"get"})) {
				t.Errorf("%s reads more Secrets than it is told: %v", name, rule)
			}
			if slices.Contains(rule.Resources, "resourceclaims/binding") {
				t.Errorf("%s may bind claims", name)
			}
		}
	}
}
