// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kerf.dev/kerf/inventory"
)

// hashLength is that of the hash in names, in characters of five bits each.
const hashLength = 8

var lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// hashOf is that of a list of texts. No other list is written the same.
func hashOf(texts ...string) string {
	var all []byte
	for _, text := range texts {
		all = binary.AppendUvarint(all, uint64(len(text)))
		all = append(all, text...)
	}
	sum := sha256.Sum256(all)
	return lower.EncodeToString(sum[:])[:hashLength]
}

// nameOf is the name of the device that these atoms are together, which come sorted. It
// depends on them alone, not on what else there is, so that it stays whatever is plugged in.
// It starts with their names, as far as these fit. They alone could be those of other atoms:
// of another driver, or with the hyphens elsewhere.
func nameOf(atoms []Atom) string {
	names, identity := make([]string, len(atoms)), make([]string, 0, 3*len(atoms))
	for i, atom := range atoms {
		names[i] = atom.Device
		identity = append(identity, atom.Driver, atom.Pool, atom.Device)
	}
	return short(strings.Join(names, "-"), validation.DNS1123LabelMaxLength, hashOf(identity...))
}

// short is a text and a hash, joined in at most so many bytes.
func short(text string, most int, hash string) string {
	text = text[:min(len(text), most-len(hash)-1)]
	return strings.TrimRight(text, "-./") + "-" + hash
}

// poolOf is the pool of a policy's molecules on a node.
func poolOf(driver, node, policy string) inventory.PoolID {
	pool := node + "/" + policy
	if len(pool) > validation.DNS1123SubdomainMaxLength {
		pool = short(node, validation.DNS1123SubdomainMaxLength, hashOf(node, policy))
	}
	return inventory.PoolID{Driver: driver, Pool: pool}
}
