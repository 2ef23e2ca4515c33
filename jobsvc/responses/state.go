package responses

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/items"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A state is the stored state and its store. It is safe for concurrent use.
type state struct {
	Options
	vault *vault
}

// settings returns how responses are stored. The error is for a client if they are not.
func (s *state) settings() (*config.Responses, error) {
	c := s.Config()
	if c == nil {
		return nil, openai.CodeGatewayUnavailable.New("The gateway has no configuration yet. Please retry.").After(time.Second)
	}
	if c.Responses == nil {
		return nil, openai.CodeUnsupportedParameter.On("store",
			"The operator of this gateway has not turned on that it stores responses and conversations.")
	}
	return c.Responses, nil
}

// findResponse returns a tenant's response.
func (s *state) findResponse(ctx context.Context, t store.Tenant, id string) (*store.Record[Response], error) {
	r, err := Kind.Get(ctx, s.Store, t, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && r.Value.ExpiresAt <= s.Now().Unix() {
		return nil, notFound("Response", id)
	}
	return r, err
}

// itemsOf returns where the items of an object are.
func (s *state) itemsOf(objectID string, sealer *secret.Sealer) *items.Store {
	return &items.Store{Bucket: s.Bucket, Sealer: sealer, Owner: objectID}
}

// dropResponse removes a response in any state.
func (s *state) dropResponse(ctx context.Context, r *store.Record[Response]) error {
	t := s.Store.Begin()
	Kind.Delete(t, r)
	t.Keep(expiryOf(r))
	if r.Value.Background {
		t.Do(queue.Remove(queueKind, r.ID))
	}
	if err := t.Commit(ctx); err != nil {
		return err
	}
	s.clearFolder(ctx, r)
	return nil
}

// clear deletes documents that no record names any more, by their names. What cannot be deleted is collected on its
// day.
func (s *state) clear(ctx context.Context, names ...string) { s.cleared(s.vault.drop(ctx, names)) }

// clearFolder is clear for all documents of a response.
func (s *state) clearFolder(ctx context.Context, r *store.Record[Response]) {
	s.cleared(s.vault.remove(ctx, folderOf(r)))
}

func (s *state) cleared(err error) {
	if err != nil {
		s.Log.Warn("stored documents were not deleted; they are collected on the day of their expiry", zap.Error(err))
	}
}
