// Package gemini is Google's Gemini API, as AI Studio serves it, and the codec of its dialect, which Vertex AI shares.
//
// The vendor's stream has no end mark. Each event is a whole answer by itself, with a piece of
// the text; a reason for finishing may stand in any of them, or in all, and an error after it. So nothing is finished for
// the client before the body ends.
package gemini

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
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
		DecodeError:       DecodeError,
		Chat:              legacy.Functions(codec{}),
		Embedding:         embedding{},
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
	m, answer, err := Encode(Service{Vendor: name}, r, t)
	if err != nil || t.Unsent {
		return provider.Request{}, nil, err
	}
	body, err := m.JSON()
	if err != nil {
		return provider.Request{}, nil, err
	}
	return provider.Request{
		Path:     resource(t.Model) + Method(r.Stream),
		Header:   http.Header{"Content-Type": {"application/json"}},
		Body:     body,
		Dropped:  m.Dropped,
		Adjusted: m.Adjusted,
	}, answer, nil
}

// Method is what follows the name of a model in the path of a request.
func Method(stream bool) string {
	if stream {
		return ":streamGenerateContent?alt=sse"
	}
	return ":generateContent"
}

// resource returns the path of a model, which may be named with its collection, such as models or tunedModels.
func resource(model string) string {
	collection, id, ok := strings.Cut(model, "/")
	if !ok {
		collection, id = "models", model
	}
	return "/" + url.PathEscape(collection) + "/" + url.PathEscape(id)
}
