// Package rerank is the operation that ranks documents, in Cohere's form: https://docs.cohere.com/reference/rerank.
// Keys and errors are OpenAI's, although OpenAI's API does not contain it.
package rerank

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound"
	dialect "github.com/modelgate/modelgate/internal/inbound/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

var operation = &inbound.Operation{Path: "/v1/rerank", Name: "rerank", Required: "'model', 'query' and 'documents'",
	Subject: "documents", Parse: parse, Document: dialect.NewChatDocument}

// Dialect is the API.
var Dialect = &inbound.Dialect{
	Name:       "rerank",
	Operations: []*inbound.Operation{operation},
	// Cohere's own SDK has this path. It is Cohere's, so that a Route to it has precedence.
	Match: func(path, _ string) *inbound.Operation {
		if path == "/v2/rerank" {
			return operation
		}
		return nil
	},
	AppendError:      dialect.Dialect.AppendError,
	AppendErrorEvent: dialect.Dialect.AppendErrorEvent,
	OpenAIErrors:     true,
}

type request struct{ *openai.RerankRequest }

func parse(_ inbound.Head, body []byte) (inbound.Request, error) {
	r, err := openai.ParseRerankRequest(body)
	if err != nil {
		return inbound.Request{}, err
	}
	return inbound.Request{Model: r.Model, Sent: &r.Members, Encoder: request{r}}, nil
}

// Encode implements inbound.Encoder.
func (r request) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if v.Rerank == nil {
		return provider.Request{}, nil, dialect.NotServed(t, "/v1/rerank")
	}
	return v.Rerank.Encode(r.RerankRequest, t)
}
