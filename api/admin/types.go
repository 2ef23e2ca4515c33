// Package admin is the admin API as its clients see it: the bodies that are exchanged, and a [Client]. Both are
// generated from openapi.yaml, which describes the API for all languages. Tests check every answer against it.
//
// An [Item] is written by hand, and so are the calls in objects.go: their documents are messages of api/config/v1,
// with a JSON form of their own. So are a [Version] and an [AuditEntry], because the ledger stores more in them than
// an answer has.
package admin

//go:generate go run gen.go

import (
	"encoding/json"
	"fmt"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Actions of the audit log for tests of a provider.
const (
	ActionTest       = "test"
	ActionTestFailed = "test_failed"
)

// An Item is an object and what the gateway says about it. As JSON it is the document with a member "status".
type Item struct {
	Kind configv1.Kind
	Name string
	// Object is nil if what is stored cannot be read; Status.Error then says why.
	Object configv1.Object
	Status Status
}

// MarshalJSON returns the document with its status.
func (i Item) MarshalJSON() ([]byte, error) {
	doc, err := i.document()
	if err != nil {
		return nil, err
	}
	status, err := json.Marshal(i.Status)
	if err != nil {
		return nil, err
	}
	doc = append(doc[:len(doc)-1], `,"status":`...)
	return append(append(doc, status...), '}'), nil
}

func (i Item) document() ([]byte, error) {
	if i.Object != nil {
		return configv1.MarshalJSON(i.Object)
	}
	return json.Marshal(struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	}{i.Kind.Name, i.Name})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (i *Item) UnmarshalJSON(data []byte) error {
	var head struct {
		Kind   string `json:"kind"`
		Name   string `json:"name"`
		Status Status `json:"status"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	kind, ok := configv1.FindKind(head.Kind)
	if !ok {
		return fmt.Errorf("unknown kind %q: is the gateway newer than this program?", head.Kind)
	}
	object, err := kind.ParseJSON(data)
	if err != nil {
		return fmt.Errorf("is the gateway newer than this program? %w", err)
	}
	*i = Item{Kind: kind, Name: head.Name, Object: object, Status: head.Status}
	return nil
}

// HeaderPending is the header of an answer to a change that was waited for: it names who has not taken it in time, and
// is not there where everybody has.
const HeaderPending = "X-Modelgate-Pending"

// HeaderTenant names the organization, or the project as "organization/project", under whose membership an account
// acts that is signed in. Without it, the first membership counts.
const HeaderTenant = "X-Modelgate-Tenant"

// MaxWait is how long a change may be waited for at most.
const MaxWait = 60 * time.Second

// A Version is what an object was after one change of it.
type Version struct {
	ID string `json:"id"`
	// Epoch is the life of the etcd that counts the revisions.
	Epoch    string    `json:"epoch,omitempty"`
	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
	Actor    string    `json:"actor"`
	// Action is [Created], [Updated], [Deleted], or [Found].
	Action  string `json:"action"`
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Created bool   `json:"created,omitempty"` // there was no such object before
	Deleted bool   `json:"deleted,omitempty"`
	Diff    string `json:"diff,omitempty"` // masked
	// Document is the object. It is absent after a deletion, and in lists. The API masks it.
	Document json.RawMessage `json:"document,omitempty"`
}

// Found is the action of a version that is as the object was before its first change that is kept.
const Found = "found"
