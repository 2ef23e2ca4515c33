// Package cohere is Cohere's own API, version 2: chat and embeddings.
//
// It looks like OpenAI's API and is not. A stream has events of its own, tool calls come one by
// one as an object and not as an array, counts of tokens are floats and stand twice (what is billed is not what was
// used), and the plan that the model makes before it calls tools is no content.
package cohere

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

// name is the vendor's.
const name = "cohere"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "https://api.cohere.com/v2",
		CredentialEnv:     "CO_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       decodeError,
		Chat:              legacy.Functions(chatCodec{}),
		Embedding:         embeddingCodec{},
		Models:            models().Models,
	}
}
