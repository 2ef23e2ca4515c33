// Package compatible is any other server with OpenAI's dialect: an own endpoint, with or without a credential.
//
// It refuses nothing, because the server is unknown. Requests pass unchanged, and the client gets the server's errors.
// Answers are corrected if they differ from OpenAI's.
package compatible

import (
	"slices"

	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/dialects/rerank"
	"github.com/modelgate/modelgate/internal/provider/dialects/responses"
)

const name = "compatible"

// Provider returns the vendor.
func Provider() provider.Provider {
	dialect := openaicompat.Stranger(name)
	return provider.Provider{
		Name:              name,
		CredentialHeaders: []string{"authorization", "api-key", "x-api-key"},
		Sign:              openaicompat.Bearer,
		DecodeError:       openaicompat.DecodeError,
		Chat: responses.New(openaicompat.New(dialect), responses.Dialect{Vendor: name, Path: overResponses,
			InBand: dialect.InBand}),
		Completion: openaicompat.NewCompletion(dialect),
		Embedding:  openaicompat.NewEmbedding(dialect),
		Rerank:     rerank.New(rerank.Dialect{Vendor: name, Path: rerank.At("/rerank"), Body: rerank.BodyOf}),
		Native: []string{
			"/moderations", "/images/generations", "/images/edits", "/images/variations", "/audio/speech",
			"/audio/transcriptions", "/audio/translations",
		},
		Optional:          []string{"/responses", "/responses/compact"},
		ChatOverResponses: true,
		Models:            modellist.Models,
	}
}

// overResponses returns the path of responses, which only some servers have.
func overResponses(t provider.Target) (string, bool) {
	return "/responses", slices.Contains(t.Config.GetOperations(), provider.OpResponses)
}
