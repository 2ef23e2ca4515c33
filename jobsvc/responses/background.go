package responses

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/modelgate/modelgate/internal/etcdspace"
	inbound "github.com/modelgate/modelgate/internal/inbound/responses"
	"github.com/modelgate/modelgate/jobsvc/items"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// queueKind is the kind of background responses in the queue.
const queueKind = "responses"

// An item has the queue's data about a response besides its id.
type item struct {
	Tenant store.Tenant `json:"tenant"`
}

// A task has a worker's data besides the record.
type task struct {
	Body  json.RawMessage   `json:"body"`            // of the request to the gateway
	Added []json.RawMessage `json:"added,omitempty"` // items that are added to the conversation
}

// encodedCopies is how often the items are in memory in addition while a task is encoded.
const encodedCopies = 2

// enqueue stores a background response for a worker. A client that wants a stream gets the events as they are logged.
func (s *Service) enqueue(w http.ResponseWriter, r *http.Request, t *turn) error {
	made, pending, err := s.queued(r.Context(), t)
	if err != nil {
		return err
	}
	if t.stream {
		return s.follow(w, r, made, t.sealer, 0)
	}
	rest.WriteBody(w, pending)
	return nil
}

// queued returns the record of a background response and its object.
func (s *Service) queued(ctx context.Context, t *turn) (*store.Record[Response], []byte, error) {
	if err := memory.Of(ctx).Take(ctx, encodedCopies*items.Size(t.items)); err != nil {
		return nil, nil, err
	}
	did := task{Body: t.ask()}
	if t.conversation != nil {
		did.Added = t.added
	}
	todo, err := json.Marshal(did)
	if err != nil {
		return nil, nil, err
	}
	at, err := json.Marshal(item{t.caller.Tenant})
	if err != nil {
		return nil, nil, err
	}
	pending := t.own(inbound.Queued(t.model, t.createdAt, t.request.body))
	made := t.record(job.ResponseQueued, items.Size(t.items)+int64(len(todo)+len(pending)))
	made.Value.Streamed, made.Value.Log.Next = t.stream, firstEvents
	err = s.write(ctx, t, made, map[string][]byte{docTask: todo, docPending: pending})
	if err != nil {
		return nil, nil, err
	}
	txn := s.Store.BeginCreation()
	txn.Within(t.caller.Bounds)
	Kind.Create(txn, made)
	txn.ExpireAt(expiryOf(made))
	txn.Do(queue.Put(queue.Item{Kind: queueKind, ID: made.ID, Value: at}))
	if err := txn.Commit(ctx); err != nil {
		if _, over := errors.AsType[*store.QuotaError](err); over || errors.Is(err, etcdspace.ErrReserved) {
			s.clearFolder(ctx, made)
		}
		return nil, nil, err
	}
	return made, pending, nil
}
