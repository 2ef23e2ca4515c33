package responses

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A Conversation is the record of a conversation. Its items are one document, which each change replaces. A change
// also puts off the expiry.
type Conversation struct {
	Key       string            `json:"key"` // name of the Key object that created it
	CreatedAt int64             `json:"created_at"`
	ExpiresAt int64             `json:"expires_at"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Document  string            `json:"document"` // name of the blob with its items
	Bytes     int64             `json:"bytes"`    // of the items
}

// Conversations are conversations.
var Conversations = store.Kind[Conversation]{Name: "conversations", Prefix: "conv_",
	Counts: func(c *Conversation) (string, store.Amounts) { return c.Key, amounts(c.Bytes) }}

const (
	// maxConversation bounds the items of a conversation, in bytes, because each change reads and writes all of them.
	maxConversation = 32 << 20
	// conflicts is how often a change is tried while others change the same conversation.
	conflicts = 16
)

func conversationExpiry(c *store.Record[Conversation]) store.Expiry {
	return store.Expiry{Kind: Conversations.Name, Tenant: c.Tenant, ID: c.ID, At: c.Value.ExpiresAt}
}

// findConversation returns a tenant's conversation.
func (s *Service) findConversation(ctx context.Context, t store.Tenant, id string) (*store.Record[Conversation],
	error) {
	c, err := Conversations.Get(ctx, s.Store, t, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && c.Value.ExpiresAt <= s.Now().Unix() {
		return nil, notFound("Conversation", id)
	}
	return c, err
}

// conversationItems returns the items of a conversation. If another request has changed it meanwhile, the record is
// read again.
func (s *Service) conversationItems(ctx context.Context, c *store.Record[Conversation],
	sealer *secret.Sealer) ([]json.RawMessage, error) {
	for try := 1; ; try++ {
		text, err := s.vault.read(ctx, sealer, c.Value.Document)
		if err == nil {
			return elements(text)
		}
		if !isMissing(err) {
			return nil, err
		}
		now, again := s.findConversation(ctx, c.Tenant, c.ID)
		if again != nil {
			return nil, again
		}
		if now.Revision == c.Revision || try == conflicts {
			return nil, lost(err, "conversation", c.ID)
		}
		*c = *now
	}
}

// put adds the change of a conversation to a transaction, once its new document is written. Exactly one of the two
// functions must be called after the transaction: each removes the document that is not needed.
func (s *Service) put(ctx context.Context, txn *store.Txn, c *store.Record[Conversation], sealer *secret.Sealer,
	items []json.RawMessage) (undo, done func(), err error) {
	settings, err := s.settings()
	if err != nil {
		return nil, nil, err
	}
	text, was := array(items), c.Value.Document
	if expires := s.Now().Add(settings.Retention).Unix(); expires != c.Value.ExpiresAt {
		if c.Revision != 0 {
			txn.Keep(conversationExpiry(c))
		}
		c.Value.ExpiresAt = expires
		txn.ExpireAt(conversationExpiry(c))
	}
	c.Value.Document, c.Value.Bytes = folder(c.ID, c.Value.ExpiresAt)+id.Bare(), int64(len(text))
	if err := s.vault.write(ctx, sealer, c.Value.Document, text); err != nil {
		return nil, nil, err
	}
	if c.Revision == 0 {
		Conversations.Create(txn, c)
	} else {
		Conversations.Update(txn, c)
	}
	now := c.Value.Document
	undo = func() { s.clear(ctx, now) }
	done = func() {
		if was != "" {
			s.clear(ctx, was)
		}
	}
	return undo, done, nil
}

// change changes the items of a conversation, and returns it as it is then. Others may change it at the same time.
func (s *Service) change(ctx context.Context, c *store.Record[Conversation], bounds store.Bounds,
	do func(items []json.RawMessage) ([]json.RawMessage, error)) error {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		items, err := s.conversationItems(ctx, c, settings.Sealer)
		if err == nil {
			items, err = do(items)
		}
		if err != nil {
			return err
		}
		txn := s.Store.BeginCreation()
		txn.Within(bounds)
		undo, done, err := s.put(ctx, txn, c, settings.Sealer, items)
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
		now, err := s.findConversation(ctx, c.Tenant, c.ID)
		if err != nil {
			return err
		}
		*c = *now
	}
}

// dropConversation removes a conversation. Its responses remain.
func (s *Service) dropConversation(ctx context.Context, c *store.Record[Conversation]) error {
	t := s.Store.Begin()
	Conversations.Delete(t, c)
	t.Keep(conversationExpiry(c))
	if err := t.Commit(ctx); err != nil {
		return err
	}
	s.clear(ctx, c.Value.Document)
	return nil
}

// fits refuses a conversation that is too large to go on with.
func fits(param string, bytes int64) error {
	if bytes <= maxConversation {
		return nil
	}
	return &openai.Error{Status: http.StatusBadRequest, Type: openai.TypeInvalidRequest, Param: param,
		Code:    openai.CodeInvalidValue,
		Message: "The conversation has more than 32 MiB, which is the most that is stored of one. Begin a new one."}
}
