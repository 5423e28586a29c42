// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"

	"kerf.dev/kerf/sandbox/cluster"
)

var _ cluster.Source = (&store{}).read

// read returns what kube-apiserver keeps of the kinds. It asks etcd and not the API
// server: a list is answered when the server's cache of that kind has heard that it
// misses nothing, up to 100 ms later, and is of another moment than the next list.
func (s *store) read(ctx context.Context, kinds ...schema.GroupVersionResource) ([][]runtime.Object, error) {
	all := &pb.TxnRequest{}
	for _, kind := range kinds {
		prefix := keys(kind.GroupResource())
		// What the API server has been told is written, the only member has.
		of := &pb.RangeRequest{Key: []byte(prefix), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(prefix)), Serializable: true}
		all.Success = append(all.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: of}})
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.etcd == nil {
		return nil, errors.New("etcd does not run")
	}
	answer, err := s.etcd.Server.Txn(ctx, all)
	if err != nil {
		return nil, err
	}
	found := make([][]runtime.Object, len(kinds))
	for i, kind := range kinds {
		for _, kv := range answer.Responses[i].GetResponseRange().Kvs {
			object, err := decode(kind.GroupVersion(), kv.Value, kv.ModRevision)
			if err != nil {
				return nil, fmt.Errorf("decode %s: %w", kv.Key, err)
			}
			found[i] = append(found[i], object)
		}
	}
	return found, nil
}

// keys is what the keys of all objects of a kind begin with.
func keys(kind schema.GroupResource) string {
	below := kind.Resource
	if special := kubeapiserver.SpecialDefaultResourcePrefixes[kind]; special != "" {
		below = special
	} else if custom(kind.Group) {
		below = path.Join(kind.Group, kind.Resource)
	}
	return path.Join(options.DefaultEtcdPathPrefix, below) + "/"
}

// custom reports whether the kinds of a group are defined by objects.
func custom(group string) bool { return !legacyscheme.Scheme.IsGroupRegistered(group) }

// decode reads an object as the API server does, in the version that is asked for. A
// custom one is unstructured; it has one version.
func decode(version schema.GroupVersion, data []byte, revision int64) (runtime.Object, error) {
	var decoder runtime.Decoder = unstructured.UnstructuredJSONScheme
	if !custom(version.Group) {
		decoder = legacyscheme.Codecs.UniversalDecoder(version)
	}
	object, err := runtime.Decode(decoder, data)
	if err != nil {
		return nil, err
	}
	of, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	of.SetResourceVersion(strconv.FormatInt(revision, 10))
	if !custom(version.Group) {
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as clients have it
	}
	return object, nil
}
