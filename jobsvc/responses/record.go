package responses

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A Response is the record of a response. Its documents are blobs in one folder.
type Response struct {
	Key          string             `json:"key"` // name of the Key object on whose behalf it was asked
	Model        string             `json:"model"`
	Status       job.ResponseStatus `json:"status"`
	CreatedAt    int64              `json:"created_at"` // Unix time in seconds
	ExpiresAt    int64              `json:"expires_at"`
	Conversation string             `json:"conversation,omitempty"`
	Previous     string             `json:"previous,omitempty"`
	Background   bool               `json:"background,omitempty"`
	Bytes        int64              `json:"bytes"`              // of its documents, without events
	Answer       string             `json:"answer,omitempty"`   // document with the response object; "": there is no answer
	Streamed     bool               `json:"streamed,omitempty"` // its events are logged
	Log          Log                `json:"log,omitzero"`
}

// A Log names the documents with the events of a background response, each with several. Events of a worker that has
// died are no part of it: the next worker asks again, and the answer is another one.
type Log struct {
	Runs  int     `json:"runs,omitempty"`  // workers that have taken the response
	Epoch int64   `json:"epoch,omitempty"` // of the claim of the last one
	Base  int64   `json:"base,omitempty"`  // number of its first event
	Parts []int64 `json:"parts,omitempty"` // numbers of the first events of its documents
	Next  int64   `json:"next,omitempty"`  // number of the next event
}

// document returns the name of a part.
func (l *Log) document(part int) string { return fmt.Sprintf("events-%d-%d", l.Epoch, part) }

// end returns the number of the event after a part.
func (l *Log) end(part int) int64 {
	if part+1 < len(l.Parts) {
		return l.Parts[part+1]
	}
	return l.Next
}

// answer returns the name of a worker's document with the response object.
func (l *Log) answer() string { return fmt.Sprintf("answer-%d", l.Epoch) }

// Names of documents.
const (
	docInput   = "input"   // the items before the answer, with the whole conversation
	docTask    = "task"    // what a worker sends
	docPending = "pending" // the response object before there is an answer
	docAnswer  = "answer"  // of a response that is not made in the background
)

// Kind are responses.
var Kind = store.Kind[Response]{Name: "responses", Prefix: "resp_", Counts: func(r *Response) (string, store.Amounts) {
	a := amounts(r.Bytes)
	if !r.Status.Over() {
		a[store.OpenBackgroundResponses] = 1
	}
	return r.Key, a
}}

// Counted are the kinds that count for quotas.
func Counted() []store.Counted { return []store.Counted{Kind, Conversations} }

// Expiring are the names of the kinds that Expire removes.
func Expiring() []string { return []string{Kind.Name, Conversations.Name} }

func amounts(bytes int64) (a store.Amounts) {
	a[store.StoredResponses], a[store.StoredResponseBytes] = 1, bytes
	return a
}

func folderOf(r *store.Record[Response]) string { return folder(r.ID, r.Value.ExpiresAt) }

func expiryOf(r *store.Record[Response]) store.Expiry {
	return store.Expiry{Kind: Kind.Name, Tenant: r.Tenant, ID: r.ID, At: r.Value.ExpiresAt}
}

func notFound(what, id string) error {
	return &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest,
		Message: fmt.Sprintf("%s with id '%s' not found.", what, id)}
}

// Expire removes a response or a conversation whose time has come.
func (s *Service) Expire(ctx context.Context, e store.Expiry) error {
	if e.Kind == Conversations.Name {
		c, err := Conversations.Get(ctx, s.Store, e.Tenant, e.ID)
		if errors.Is(err, store.ErrNotFound) || err == nil && c.Value.ExpiresAt > e.At {
			return nil // it was changed since, and expires later
		}
		if err != nil {
			return err
		}
		return s.conversations.drop(ctx, c)
	}
	r, err := Kind.Get(ctx, s.Store, e.Tenant, e.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.dropResponse(ctx, r)
}

// Collect deletes documents without a record. It is meant to run now and then, on any replica.
func (s *Service) Collect(ctx context.Context) error { return s.vault.collect(ctx) }
