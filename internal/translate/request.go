// Package translate is the way of a request to a vendor and of the answer back to the client, without a gateway around
// it: no network, no retries, one vendor.
//
// It is no way of its own: requests are parsed and answers are written as in the gateway, by the operations and the
// pipeline.
package translate

import (
	"fmt"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/inbound/gemini"
	"github.com/modelgate/modelgate/internal/provider"
)

// An Endpoint is an operation that is translated.
type Endpoint string

// The endpoints.
const (
	Chat        Endpoint = "chat"
	Completions Endpoint = "completions"
	Embeddings  Endpoint = "embeddings"
	Messages    Endpoint = "messages" // Anthropic's
	Responses   Endpoint = "responses"
	Gemini      Endpoint = "gemini" // Google's
	Rerank      Endpoint = "rerank" // Cohere's
)

// paths are the paths of the operations.
var paths = map[Endpoint]string{Chat: "/v1/chat/completions", Completions: "/v1/completions",
	Embeddings: "/v1/embeddings", Messages: "/v1/messages",
	Responses: "/v1/responses", Rerank: "/v1/rerank"}

// A Request is a client's request that has been checked once, and the codec that translates it.
type Request struct {
	Endpoint Endpoint
	inbound.Request

	operation *inbound.Operation
	provider  provider.Provider
}

// Carrier is for ids with data, which a gateway signs. Here the key of it is known, so that what is made here is read
// here, and no gateway accepts it.
func Carrier() openai.Carrier { return openai.NewCarrierKey([]byte("modelgate translate")).For("", "") }

// Parse checks a client's request to p. An error is an *openai.Error.
func Parse(p provider.Provider, e Endpoint, body []byte) (*Request, error) {
	path, query := paths[e], ""
	if e == Gemini {
		path, query, body = locateGemini(body)
	}
	o := dialects.Find(path, query)
	if o == nil {
		return nil, fmt.Errorf("there is no endpoint %q: choose %s, %s, %s, %s, %s, %s or %s", e, Chat, Completions,
			Embeddings, Messages, Responses, Gemini, Rerank)
	}
	r, err := o.Parse(inbound.Head{Path: path, Carrier: Carrier()}, body)
	if err != nil {
		return nil, err
	}
	return &Request{Endpoint: e, Request: r, operation: o, provider: p}, nil
}

// locateGemini returns the path and the query of a request of Google's API, which say what its members model and
// stream say here, and the body without them.
func locateGemini(body []byte) (path, query string, rest []byte) {
	members := map[string]jsontext.Value{}
	if err := json.Unmarshal(body, &members); err != nil {
		members = nil
	}
	method := "generateContent"
	if string(members["stream"]) == "true" {
		method, query = "streamGenerateContent", "alt=sse"
	}
	path = gemini.Prefix + "models/" + url.PathEscape(openai.Unquote(members["model"])) + ":" + method
	delete(members, "model")
	delete(members, "stream")
	if rest, err := json.Marshal(members, json.Deterministic(true)); err == nil && members != nil {
		return path, query, rest
	}
	return path, query, body
}

// Encode builds the vendor's request, and the Answer that reads what comes back for it.
func (r *Request) Encode(t provider.Target) (provider.Request, provider.Answer, error) {
	return r.Request.Encode(&r.provider, t)
}

// Operation returns what the request is of.
func (r *Request) Operation() *inbound.Operation { return r.operation }
