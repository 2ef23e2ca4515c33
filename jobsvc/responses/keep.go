package responses

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/jobsvc/items"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// keeping bounds how long an answer is being stored, while the client waits for its end.
const keeping = 15 * time.Second

// indexRoom is about what the index of a conversation takes while an answer is added.
const indexRoom = 256 << 10

func isMissing(err error) bool { return errors.Is(err, errMissing) }

// keep stores an answer as a response, and adds it to its conversation, also if the client has left. What it returns
// means that nothing is stored, or that it is not known.
func (s *Service) keep(ctx context.Context, t *turn, object []byte) error {
	if !t.store && t.conversation == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keeping)
	defer cancel()
	memory.Of(ctx).Owe(indexRoom)
	ctx = memory.With(ctx, nil) // the answer is there, and must not be refused for want of memory
	said, err := outputOf(object)
	if err != nil {
		return err
	}
	object = t.own(object)
	r := t.record(statusOf(object), items.Size(t.items)+int64(len(object)))
	if t.store {
		r.Value.Answer = docAnswer
		if err := s.write(ctx, t, r, map[string][]byte{docAnswer: object}); err != nil {
			return err
		}
	}
	err = s.commit(ctx, t, said, r.Value.Status, func(txn *store.Txn) {
		if t.store {
			Kind.Create(txn, r)
			txn.ExpireAt(expiryOf(r))
		}
	})
	if t.store && (errors.Is(err, etcdspace.ErrReserved) || errors.Is(err, store.ErrBusy)) {
		s.clearFolder(ctx, r)
	}
	return err
}

// record returns the record of a turn.
func (t *turn) record(status job.ResponseStatus, bytes int64) *store.Record[Response] {
	return &store.Record[Response]{Tenant: t.caller.Tenant, ID: t.id, Value: Response{
		Key: t.caller.Key, Model: t.model, Status: status, CreatedAt: t.createdAt, ExpiresAt: t.expiresAt,
		Conversation: t.request.conversation, Previous: t.previous, Background: t.background, Bytes: bytes,
	}}
}

// write writes the documents of a response, and the items before its answer.
func (s *Service) write(ctx context.Context, t *turn, r *store.Record[Response], documents map[string][]byte) error {
	g, all := errgroup.WithContext(ctx)
	g.Go(func() error { return s.itemsOf(r.ID, t.sealer).WriteWhole(all, folderOf(r)+docInput, t.items) })
	for name, document := range documents {
		g.Go(func() error { return s.vault.write(all, t.sealer, folderOf(r)+name, document) })
	}
	err := g.Wait()
	if err != nil {
		s.clearFolder(ctx, r)
	}
	return err
}

// commit makes a change together with the conversation's: the turn is added to its end. Others may have added to
// the conversation meanwhile.
func (s *Service) commit(ctx context.Context, t *turn, said []json.RawMessage, status job.ResponseStatus,
	change func(*store.Txn)) error {
	for try := 1; ; try++ {
		txn := s.Store.Begin()
		change(txn)
		undo, done := func() {}, func() {}
		if t.conversation != nil && (status == job.ResponseCompleted || status == job.ResponseIncomplete) {
			var before *items.List
			err := s.conversations.read(ctx, t.conversation, t.sealer, func(_ *items.Store, list *items.List) error {
				before = list
				return nil
			})
			if err != nil {
				return err
			}
			undo, done, err = s.conversations.put(ctx, txn, t.conversation, t.sealer, before,
				before.Plus(slices.Concat(t.added, identified(said))))
			if err != nil {
				return err
			}
		}
		err := txn.Commit(ctx)
		switch {
		case err == nil:
			done()
			return nil
		case !errors.Is(err, store.ErrConflict) || t.conversation == nil || try == conflicts:
			return err
		}
		undo()
		if t.conversation, err = s.conversations.find(ctx, t.caller.Tenant, t.conversation.ID); err != nil {
			return err
		}
	}
}
