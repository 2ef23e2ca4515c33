// Package auditchain links the entries of the audit log into a chain, and says where a chain is broken. It reads and
// writes nothing.
//
// The hash of an entry is over everything that is in it. Text that a store shortens or cleans must be so before it is
// linked: what comes back different is a changed entry.
package auditchain

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// A Head is the end of a chain.
type Head struct {
	Sequence int64  `json:"sequence"`
	Hash     string `json:"hash"`
	// ID is the newest entry's id. The ids of a chain ascend.
	ID string `json:"id"`
}

// Link appends entries, which have their ids, to the chain, and returns its new head.
func (h Head) Link(entries []adminapi.AuditEntry) (Head, error) {
	for i := range entries {
		e := &entries[i]
		e.Sequence, e.Previous = h.Sequence+1, h.Hash
		var err error
		if e.Hash, err = Hash(*e); err != nil {
			return h, err
		}
		h.Sequence, h.Hash, h.ID = e.Sequence, e.Hash, e.ID
	}
	return h, nil
}

// Unlink makes entries what they were before Link.
func Unlink(entries []adminapi.AuditEntry) {
	for i := range entries {
		entries[i].Sequence, entries[i].Previous, entries[i].Hash = 0, "", ""
	}
}

// Hash returns the hash of an entry: SHA-256, in hexadecimal digits, over the hash of the previous entry as such
// digits, and the entry as canonical JSON (RFC 8785) without its members hash, previous and tenants: the ledger keeps
// who sees an entry apart from it.
func Hash(e adminapi.AuditEntry) (string, error) {
	previous := e.Previous
	e.Previous, e.Hash, e.Tenants = "", "", nil
	text, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("hash an entry of the audit log: %w", err)
	}
	canonical := jsontext.Value(text)
	if err := canonical.Canonicalize(); err != nil {
		return "", fmt.Errorf("hash an entry of the audit log: %w", err)
	}
	sum := sha256.Sum256(append([]byte(previous), canonical...))
	return hex.EncodeToString(sum[:]), nil
}
