// Package anthropic is Anthropic's own API.
//
// The dialect is not here. Package messages translates requests and answers, also for other clouds with the same
// models. README.md lists what the translation loses.
package anthropic

import (
	"net/http"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/provider/legacy"
	"github.com/modelgate/modelgate/internal/provider/private"
)

// name is the vendor's.
const name = "anthropic"

// version is the API's version, which each request must name.
const version = "2023-06-01"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "https://api.anthropic.com/v1",
		CredentialEnv:     "ANTHROPIC_API_KEY",
		CredentialHeaders: []string{"x-api-key", "authorization", "anthropic-version", "anthropic-beta"},
		Sign:              sign,
		DecodeError:       messages.DecodeError,
		Chat:              legacy.Functions(codec{}),
		TakesThinking:     true,
		Messages:          native{},
		Batches:           newBatches(legacy.Functions(codec{})),
		Models:            models,
	}
}

func sign(r *provider.Request, s provider.Signing) error {
	r.Header.Set("X-Api-Key", s.Credential.Reveal())
	return nil
}

type codec struct{}

// Encode builds a request of the Messages API.
func (codec) Encode(r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	m, answer, err := messages.Encode(name, r, t)
	if err != nil || t.Unsent {
		return provider.Request{}, nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Anthropic-Version": {version}}
	if len(m.AnthropicBeta) > 0 {
		header.Set("Anthropic-Beta", strings.Join(m.AnthropicBeta, ","))
		m.AnthropicBeta = nil
	}
	body, err := m.JSON()
	if err != nil {
		return provider.Request{}, nil, messages.JSONError(err)
	}
	return provider.Request{Path: "/messages", Header: header, Body: body, Dropped: m.Dropped, Adjusted: m.Adjusted},
		answer, nil
}

// native passes requests of Anthropic's own clients.
type native struct{}

// Serves implements provider.NativeCodec.
func (native) Serves(provider.NativeRequest, provider.Target) bool { return true }

// Encode implements provider.NativeCodec.
func (native) Encode(r provider.NativeRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	m := messages.EncodeNative(private.Vendor(name, t.Config.GetEndpoint()), r, t.Can(), t.Model, "")
	header := http.Header{"Content-Type": {"application/json"}, "Anthropic-Version": {version}}
	if len(m.Betas) > 0 {
		header.Set("Anthropic-Beta", strings.Join(m.Betas, ","))
	}
	sent := provider.Request{Path: "/messages", Header: header, Body: m.Body, Dropped: m.Dropped}
	if r.Count {
		sent.Path += "/count_tokens"
		return sent, nil, nil
	}
	return sent, &messages.NativeAnswer{}, nil
}
