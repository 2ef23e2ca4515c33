// Package openai is the provider OpenAI, and servers with its API under another endpoint.
//
// An endpoint needs no credential. Local servers with OpenAI's dialect have none, and refuse an empty bearer token.
package openai

import (
	"net/url"

	api "github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/dialects/responses"
	"github.com/modelgate/modelgate/internal/provider/private"
	"github.com/modelgate/modelgate/internal/provider/tuning"
)

// Provider returns the provider. It is safe for concurrent use.
func Provider() provider.Provider {
	d := openaicompat.Dialect{Vendor: "openai", AsReceived: true, SearchTool: true, Hints: []string{"cache_control"}}
	return provider.Provider{
		Name:              "openai",
		DefaultEndpoint:   "https://api.openai.com/v1",
		CredentialEnv:     "OPENAI_API_KEY",
		CredentialHeaders: []string{"authorization", "openai-organization", "openai-project"},
		Sign:              openaicompat.Bearer,
		DecodeError:       d.DecodeError,
		Chat: chat{responses.New(openaicompat.New(d), responses.Dialect{Vendor: "openai", Searches: true, InBand: d.InBand,
			Path: func(provider.Target) (string, bool) { return "/responses", true }}),
			openaicompat.New(openaicompat.Stranger("openai"))},
		Completion:        openaicompat.NewCompletion(d),
		Embedding:         openaicompat.NewEmbedding(d),
		Batches:           batches(d),
		FineTuning:        tuning.New(tuning.Dialect{}),
		Realtime:          realtime,
		ChatOverResponses: true,
		Native: []string{
			"/responses", "/responses/compact", "/moderations", "/images/generations", "/images/edits", "/images/variations",
			"/audio/speech", "/audio/transcriptions", "/audio/translations",
		},
		Models: modellist.Models,
	}
}

// A chat is the codec of chat completions of OpenAI, and that of Google's servers with OpenAI's dialect, which want
// back what OpenAI does not know: the signatures of calls.
type chat struct{ openais, googles provider.ChatCodec }

// Encode implements provider.ChatCodec.
func (c chat) Encode(r *api.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	if private.IsGoogles(t.Config.GetEndpoint()) {
		return c.googles.Encode(r, t)
	}
	return c.openais.Encode(r, t)
}

// realtime returns where sessions are: https://platform.openai.com/docs/guides/realtime-websocket.
func realtime(t provider.Target) (string, error) {
	return "/realtime?model=" + url.QueryEscape(t.Model), nil
}
