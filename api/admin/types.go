// Package admin is the admin API as its clients see it: the bodies that are exchanged, and a [Client]. The description
// for other languages is openapi.yaml beside this file.
//
// This is not generated from openapi.yaml. Objects are protobuf messages with a JSON form of
// their own, which a generator would declare a second time. Tests check every answer against the description instead.
package admin

import (
	"encoding/json"
	"fmt"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// An Item is an object and what the gateway says about it. As JSON it is the document with a member "status".
type Item struct {
	Kind configv1.Kind
	Name string
	// Object is nil if what is stored cannot be read; Status.Error then says why.
	Object configv1.Object
	Status Status
}

// Status is the state of an object at the gateway.
type Status struct {
	// Revision is the revision of the object's last change, and its ETag.
	Revision int64 `json:"revision"`
	// Error is why the object, or its last change, has no effect; empty if it has.
	Error string `json:"error,omitempty"`
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

// Actions of a [Change].
const (
	Created   = "created"
	Updated   = "updated"
	Unchanged = "unchanged"
	Deleted   = "deleted"
)

// A Change is what applying did, or would do, to one object.
type Change struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Action string `json:"action"`
	// Diff is a unified diff of the object as YAML, credentials redacted. Empty where nothing changes.
	Diff string `json:"diff,omitempty"`
	// Error is why the object has no effect, or not as it was applied; empty if it has, and of a dry run.
	Error string `json:"error,omitempty"`
	// Approval is the approval that a change with the action [Pending] waits for. A dry run has only the
	// rules and the reasons.
	Approval *Approval `json:"approval,omitempty"`
}

// HeaderPending is the header of an answer to a change that was waited for: it names who has not taken it in time, and
// is not there where everybody has.
const HeaderPending = "X-Modelgate-Pending"

// HeaderTenant names the organization, or the project as "organization/project", under whose membership an account
// acts that is signed in. Without it, the first membership counts.
const HeaderTenant = "X-Modelgate-Tenant"

// MaxWait is how long a change may be waited for at most.
const MaxWait = 60 * time.Second

// An ApplyAnswer lists the changes in the order of the documents.
type ApplyAnswer struct {
	// Revision is the revision of the configuration after the change. It is 0 for a dry run and if nothing changed.
	Revision int64    `json:"revision"`
	Changes  []Change `json:"changes"`
}

// An Export has the objects that files describe, as documents that an apply takes back. Credentials are masked. An
// apply of a masked credential keeps the stored one.
type Export struct {
	Revision int64             `json:"revision"`
	Objects  []json.RawMessage `json:"objects"`
}

// A KeyRequest asks for a new key.
type KeyRequest struct {
	DisplayName  string     `json:"display_name"`
	Organization string     `json:"organization,omitempty"`
	Project      string     `json:"project,omitempty"`
	Models       []string   `json:"models,omitempty"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty"`

	Endpoints []string          `json:"endpoints,omitempty"`
	Addresses []string          `json:"addresses,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	// Limits and Budgets are as in a Key's document.
	Limits  []Limit  `json:"limits,omitempty"`
	Budgets []Budget `json:"budgets,omitempty"`
	// CreateMissing has the organization and the project made if there are none.
	CreateMissing bool `json:"-"`
}

// A Limit is a configv1.Limit as JSON has it.
type Limit struct {
	Domain          string `json:"domain"`
	Unit            string `json:"unit,omitempty"` // MINUTE, HOUR, DAY
	RequestsPerUnit uint64 `json:"requests_per_unit"`
	Model           string `json:"model,omitempty"`
}

// A Budget is a configv1.Budget as JSON has it.
type Budget struct {
	Unit string `json:"unit"` // DAY or MONTH
	USD  string `json:"usd"`
}

// A NewKey is a key at the only time at which it is shown.
type NewKey struct {
	ID  string `json:"id"`
	Key string `json:"key"`
	// Pending means that the key does not work before Approval is given.
	Pending  bool      `json:"pending,omitempty"`
	Approval *Approval `json:"approval,omitempty"`
}

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
