// Package gemini is Google's Gemini API of AI Studio. Package dialects/gemini has the dialect, which Vertex AI shares.
package gemini

import (
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/gemini"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

// name is the vendor's.
const name = "gemini"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		StreamTypes:       []string{"text/event-stream", "application/json"}, // a JSON array, where alt=sse is not honoured
		DefaultEndpoint:   "https://generativelanguage.googleapis.com/v1beta",
		CredentialEnv:     "GEMINI_API_KEY",
		CredentialHeaders: []string{"x-goog-api-key", "x-goog-user-project", "authorization"},
		Sign:              sign,
		DecodeError:       gemini.DecodeError,
		Chat:              legacy.Functions(codec{}),
		TakesThinking:     true,
		Gemini:            native{},
		Embedding:         gemini.Embedding(name),
		Models:            models().Models,
	}
}

func sign(r *provider.Request, s provider.Signing) error {
	r.Header.Set("X-Goog-Api-Key", s.Credential.Reveal())
	return nil
}

type codec struct{}

// Encode builds a request of the Gemini API.
func (codec) Encode(r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	m, answer, err := gemini.Encode(gemini.Service{Vendor: name}, r, t)
	if err != nil || t.Unsent {
		return provider.Request{}, nil, err
	}
	body, err := m.JSON()
	if err != nil {
		return provider.Request{}, nil, err
	}
	return provider.Request{
		Path:     gemini.Resource(t.Model) + gemini.Method(r.Stream),
		Header:   http.Header{"Content-Type": {"application/json"}},
		Body:     body,
		Dropped:  m.Dropped,
		Adjusted: m.Adjusted,
	}, answer, nil
}

// native passes requests of Google's clients on.
type native struct{}

// Serves implements provider.NativeCodec.
func (native) Serves(provider.NativeRequest, provider.Target) bool { return true }

// Encode implements provider.NativeCodec.
func (native) Encode(r provider.NativeRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	sent, answer := gemini.EncodeNative(name, gemini.Resource(t.Model), r)
	return sent, answer, nil
}
