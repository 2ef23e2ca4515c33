// Package openai is the provider OpenAI, and whatever serves its API under another endpoint.
//
// What a newcomer gets wrong: an endpoint needs no credential. Local servers that speak OpenAI's dialect have none, and
// refuse an empty bearer token.
package openai

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/openaicompat"
	"github.com/modelgate/modelgate/internal/secret"
)

// Provider returns the provider. It is safe for concurrent use.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              "openai",
		DefaultEndpoint:   "https://api.openai.com/v1",
		CredentialEnv:     "OPENAI_API_KEY",
		CredentialHeaders: []string{"authorization", "openai-organization", "openai-project"},
		Sign:              sign,
		Chat:              openaicompat.New(openaicompat.Dialect{Models: models()}),
	}
}

func sign(r *provider.Request, credential secret.Value) {
	if !credential.IsZero() {
		r.Header.Set("Authorization", "Bearer "+credential.Reveal())
	}
}
