// Package translate is the way of a request to a vendor and of the answer back to the client, without a gateway around it:
// no network, no retries, one vendor.
//
// What a newcomer gets wrong: the gateway does not call this package for answers. It gets them in pieces and in states;
// what is here must do the same with an answer that is there already.
package translate

import (
	"fmt"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/overchat"
)

// An Endpoint is one of OpenAI's operations that are translated.
type Endpoint string

// The endpoints.
const (
	Chat        Endpoint = "chat"
	Completions Endpoint = "completions"
	Embeddings  Endpoint = "embeddings"
)

// A Request is a client's request that has been checked once, and the codec that translates it.
type Request struct {
	Endpoint     Endpoint
	Model        string // the name the client knows
	Stream       bool
	IncludeUsage bool

	encode func(provider.Target) (provider.Request, provider.Answer, error)
}

// Parse checks a client's request to p. An error is an *openai.Error.
func Parse(p provider.Provider, e Endpoint, body []byte) (*Request, error) {
	switch e {
	case Chat:
		r, err := openai.ParseChatRequest(body)
		if err != nil {
			return nil, err
		}
		if p.Chat == nil {
			return nil, notServed(p, "chat completions")
		}
		return &Request{e, r.Model, r.Stream, r.IncludeUsage, func(t provider.Target) (provider.Request, provider.Answer, error) {
			return p.Chat.Encode(r, t)
		}}, nil
	case Completions:
		r, err := openai.ParseCompletionRequest(body)
		if err != nil {
			return nil, err
		}
		codec := p.Completion
		if codec == nil && p.Chat != nil {
			codec = overchat.Completion(p.Chat, p.Name)
		}
		if codec == nil {
			return nil, notServed(p, "completions")
		}
		return &Request{e, r.Model, r.Stream, r.IncludeUsage, func(t provider.Target) (provider.Request, provider.Answer, error) {
			return codec.Encode(r, t)
		}}, nil
	case Embeddings:
		r, err := openai.ParseEmbeddingRequest(body)
		if err != nil {
			return nil, err
		}
		if p.Embedding == nil {
			return nil, notServed(p, "embeddings")
		}
		return &Request{Endpoint: e, Model: r.Model, encode: func(t provider.Target) (provider.Request, provider.Answer, error) {
			return p.Embedding.Encode(r, t)
		}}, nil
	}
	return nil, fmt.Errorf("there is no endpoint %q: choose %s, %s or %s", e, Chat, Completions, Embeddings)
}

// Encode builds the vendor's request, and the Answer that reads what comes back for it.
func (r *Request) Encode(t provider.Target) (provider.Request, provider.Answer, error) {
	return r.encode(t)
}

func notServed(p provider.Provider, what string) *openai.Error {
	return openai.BadRequest("model", "unsupported_endpoint", "The provider '%s' does not serve %s. Choose another model.", p.Name, what)
}
