package responses

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A turn is a request with everything that was stored before it.
type turn struct {
	*request
	id           string
	caller       rest.Caller
	sealer       *secret.Sealer
	createdAt    int64
	expiresAt    int64
	items        []json.RawMessage // the conversation with the input
	added        []json.RawMessage // the input alone
	native       bool              // a provider of the model serves the API itself
	encrypts     bool              // such a provider returns encrypted reasoning
	conversation *store.Record[Conversation]
}

// resolve reads what a request refers to, as far as there is room for it in memory.
func (s *Service) resolve(ctx context.Context, q *request, c rest.Caller, settings *config.Responses) (*turn, error) {
	now := s.Now()
	t := &turn{request: q, id: Kind.NewID(), caller: c, sealer: settings.Sealer, createdAt: now.Unix(),
		expiresAt: now.Add(settings.Retention).Unix()}
	var before []json.RawMessage
	var err error
	switch {
	case q.previous != "":
		before, err = s.context(ctx, t)
	case q.conversation != "":
		if t.conversation, err = s.conversations.find(ctx, c.Tenant, q.conversation); err != nil {
			return nil, err
		}
		bytes := t.conversation.Value.Bytes
		if err = fits("conversation", bytes); err == nil {
			err = memory.Of(ctx).Take(ctx, storedCopies*bytes)
		}
		if err == nil {
			before, err = s.conversations.all(memory.With(ctx, nil), t.conversation, t.sealer) // it was taken at once
		}
	}
	if err != nil {
		return nil, err
	}
	if t.added, err = known(q.input, among(before), "input"); err != nil {
		return nil, err
	}
	t.added = identified(t.added)
	t.items = slices.Concat(before, t.added)
	t.native, t.encrypts = s.targets(q.model)
	return t, nil
}

// context returns the items of the previous response: everything that it was asked, and its answer.
func (s *Service) context(ctx context.Context, t *turn) ([]json.RawMessage, error) {
	r, err := s.findResponse(ctx, t.caller.Tenant, t.previous)
	if e, ok := errors.AsType[*openai.Error](err); ok && e.Status == http.StatusNotFound {
		return nil, openai.CodePreviousResponseNotFound.On("previous_response_id",
			"Previous response with id '%s' not found.", t.previous)
	}
	if err != nil {
		return nil, err
	}
	if r.Value.Answer == "" {
		return nil, openai.CodeInvalidValue.On("previous_response_id",
			"The response '%s' is %s and has no answer to go on from.", t.previous, r.Value.Status)
	}
	if err := memory.Of(ctx).Take(ctx, storedCopies*r.Value.Bytes); err != nil {
		return nil, err
	}
	var before []json.RawMessage
	var answer []byte
	g, both := errgroup.WithContext(memory.With(ctx, nil)) // it was taken at once
	g.Go(func() error {
		at := s.itemsOf(r.ID, t.sealer)
		list, err := at.Open(both, folderOf(r)+docInput)
		if err == nil {
			before, err = at.All(both, list)
		}
		return err
	})
	g.Go(func() (err error) {
		answer, err = s.vault.read(both, t.sealer, folderOf(r)+r.Value.Answer)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, lost(err, "response", r.ID)
	}
	said, err := outputOf(answer)
	return slices.Concat(before, said), err
}

// outputOf returns the items of a response object.
func outputOf(object []byte) ([]json.RawMessage, error) {
	output := gjson.GetBytes(object, "output")
	if !output.IsArray() {
		return nil, nil
	}
	return elements([]byte(output.Raw))
}

// targets finds out about the providers of a model that serve the API themselves: whether there are any, and whether
// one returns encrypted reasoning.
func (s *Service) targets(model string) (native, encrypts bool) {
	c := s.Config()
	learn := func(p *config.Provider, upstream string) {
		if p == nil {
			return
		}
		at := c.At(p, upstream)
		if _, ok := p.Vendor.NativePath(nativePath, at); ok {
			native = true
			encrypts = encrypts || at.Facts.GetCapabilities().GetEncryptedReasoning()
		}
	}
	for _, t := range c.Models[model].GetTargets() {
		learn(c.Providers[t.GetProvider()], t.GetModel())
	}
	if p, upstream, ok := c.Target(model); ok {
		learn(p, upstream)
	}
	return native, encrypts
}

// nativePath is the operation among those of a vendor.
const nativePath = "/responses"

// ask returns the request that is sent to the gateway.
func (t *turn) ask() []byte {
	include := t.include
	if t.encrypts && !slices.Contains(include, encryptedReasoning) {
		include = append(slices.Clone(include), encryptedReasoning)
	}
	return t.upstream(t.items, t.native, t.stream, include)
}
