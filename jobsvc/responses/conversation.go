package responses

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/jobsvc/items"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A Conversation is the record of a conversation. Its items are in pieces: each change replaces the index of these,
// and adds or replaces only the pieces that it is about. A change also puts off the expiry.
type Conversation struct {
	Key       string            `json:"key"` // name of the Key object that created it
	CreatedAt int64             `json:"created_at"`
	ExpiresAt int64             `json:"expires_at"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Document  string            `json:"document"` // name of the index of its items
	Bytes     int64             `json:"bytes"`    // of the items
}

// Conversations are conversations.
var Conversations = store.Kind[Conversation]{Name: "conversations", Prefix: "conv_",
	Counts: func(c *Conversation) (string, store.Amounts) { return c.Key, amounts(c.Bytes) }}

const (
	// maxConversation bounds the items of a conversation, in bytes, because each response reads and sends all of them.
	maxConversation = 32 << 20
	// slackShare is the part of the retention by which pieces may outlive their conversation, if nobody removes them. A
	// conversation that changes all the time has them written again that often.
	slackShare = 4
	// conflicts is how often a change is tried while others change the same conversation.
	conflicts = 16
)

// conversations serves and changes conversations. It is safe for concurrent use.
type conversations struct{ *state }

func conversationExpiry(c *store.Record[Conversation]) store.Expiry {
	return store.Expiry{Kind: Conversations.Name, Tenant: c.Tenant, ID: c.ID, At: c.Value.ExpiresAt}
}

// find returns a tenant's conversation.
func (s *conversations) find(ctx context.Context, t store.Tenant, id string) (*store.Record[Conversation], error) {
	c, err := Conversations.Get(ctx, s.Store, t, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && c.Value.ExpiresAt <= s.Now().Unix() {
		return nil, notFound("Conversation", id)
	}
	return c, err
}

// read gives the index of a conversation's items to do. If another request has changed the conversation meanwhile, so
// that what the index names is gone, both are read again.
func (s *conversations) read(ctx context.Context, c *store.Record[Conversation], sealer *secret.Sealer,
	do func(*items.Store, *items.List) error) error {
	for try := 1; ; try++ {
		at := s.itemsOf(c.ID, sealer)
		list, err := at.Open(ctx, c.Value.Document)
		if err == nil {
			err = do(at, list)
		}
		if !isMissing(err) {
			return err
		}
		now, again := s.find(ctx, c.Tenant, c.ID)
		if again != nil {
			return again
		}
		if now.Revision == c.Revision || try == conflicts {
			return lost(err, "conversation", c.ID)
		}
		*c = *now
	}
}

// all returns all items of a conversation.
func (s *conversations) all(ctx context.Context, c *store.Record[Conversation],
	sealer *secret.Sealer) (found []json.RawMessage, err error) {
	err = s.read(ctx, c, sealer, func(at *items.Store, list *items.List) (err error) {
		found, err = at.All(ctx, list)
		return err
	})
	return found, err
}

// put adds the change of a conversation to a transaction, once its list of items is written. Exactly one of the two
// functions must be called after the transaction: each removes the documents that are not needed.
func (s *conversations) put(ctx context.Context, txn *store.Txn, c *store.Record[Conversation], sealer *secret.Sealer,
	was, list *items.List) (undo, done func(), err error) {
	settings, err := s.settings()
	if err != nil {
		return nil, nil, err
	}
	if expires := s.Now().Add(settings.Retention).Unix(); expires != c.Value.ExpiresAt {
		if c.Revision != 0 {
			txn.Keep(conversationExpiry(c))
		}
		c.Value.ExpiresAt = expires
		txn.ExpireAt(conversationExpiry(c))
	}
	slack := max(settings.Retention/slackShare, 24*time.Hour)
	made, err := s.itemsOf(c.ID, sealer).Save(ctx, was, list, c.Value.ExpiresAt, int64(slack/time.Second))
	if err != nil {
		s.clear(ctx, made.Written...)
		return nil, nil, err
	}
	c.Value.Document, c.Value.Bytes = made.Name, list.Bytes()
	if c.Revision == 0 {
		Conversations.Create(txn, c)
	} else {
		Conversations.Update(txn, c)
	}
	return func() { s.clear(ctx, made.Written...) }, func() { s.clear(ctx, made.Replaced...) }, nil
}

// change changes the items of a conversation, and returns it as it is then. Others may change it at the same time.
func (s *conversations) change(ctx context.Context, c *store.Record[Conversation], bounds store.Bounds,
	do func(*items.Store, *items.List) (*items.List, error)) error {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	defer memory.Of(ctx).Mark()()
	for try := 1; ; try++ {
		var was, list *items.List
		err := s.read(ctx, c, settings.Sealer, func(at *items.Store, now *items.List) (err error) {
			was = now
			list, err = do(at, now)
			return err
		})
		if err != nil {
			return err
		}
		txn := s.Store.BeginCreation()
		txn.Within(bounds)
		undo, done, err := s.put(ctx, txn, c, settings.Sealer, was, list)
		if err != nil {
			return err
		}
		if err = txn.Commit(ctx); err == nil {
			done()
			return nil
		}
		if !errors.Is(err, store.ErrConflict) || try == conflicts {
			return err
		}
		undo()
		now, err := s.find(ctx, c.Tenant, c.ID)
		if err != nil {
			return err
		}
		*c = *now
	}
}

// drop removes a conversation. Its responses remain.
func (s *conversations) drop(ctx context.Context, c *store.Record[Conversation]) error {
	t := s.Store.Begin()
	Conversations.Delete(t, c)
	t.Keep(conversationExpiry(c))
	if err := t.Commit(ctx); err != nil {
		return err
	}
	names := []string{c.Value.Document}
	if settings, err := s.settings(); err == nil { // or else what the index names is collected on its day
		if names, err = s.itemsOf(c.ID, settings.Sealer).Blobs(ctx, c.Value.Document); err != nil {
			s.Log.Warn("what a conversation consists of cannot be read; it is collected on the day of its expiry",
				zap.String("conversation", c.ID), zap.Error(err))
		}
	}
	s.clear(ctx, names...)
	return nil
}

// fits refuses a conversation that is too large to go on with.
func fits(param string, bytes int64) error {
	if bytes <= maxConversation {
		return nil
	}
	return openai.CodeInvalidValue.On(param, "The conversation has more than 32 MiB, which is the most that is stored of one. Begin a new one.")
}
