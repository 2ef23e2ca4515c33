// Package compatible is whatever else serves OpenAI's dialect: an endpoint of its own, with a credential or without.
//
// Nothing is refused here, for nothing is known of the server. Requests pass as they are, and
// what the server says of them is the client's answer; where its answers depart from OpenAI's they are put right.
package compatible

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
)

const name = "compatible"

// Provider returns the vendor.
func Provider() provider.Provider {
	dialect := openaicompat.Dialect{Vendor: name, AllTools: true, Thoughts: true, Own: []string{"*", openai.Unnamed}}
	return provider.Provider{
		Name:              name,
		CredentialHeaders: []string{"authorization", "api-key", "x-api-key"},
		Sign:              openaicompat.Bearer,
		DecodeError:       openaicompat.DecodeError,
		Chat:              openaicompat.New(dialect),
		Completion:        openaicompat.NewCompletion(dialect),
		Embedding:         openaicompat.NewEmbedding(dialect),
		Native: []string{
			"/responses", "/moderations", "/images/generations", "/images/edits", "/images/variations", "/audio/speech",
			"/audio/transcriptions", "/audio/translations",
		},
		Models: openaicompat.Models,
	}
}
