// Package mistral is Mistral's own API: chat and embeddings.
//
// The dialect is OpenAI's, but the vendor refuses every unknown member of a request and of its messages. So requests
// are written anew from the known members, and never passed through. Answers are written anew too, because content may
// be a list of thinking and text where clients expect a string.
package mistral

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

// name is the vendor's.
const name = "mistral"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "https://api.mistral.ai/v1",
		CredentialEnv:     "MISTRAL_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       decodeError,
		Chat:              legacy.Functions(chatCodec{}),
		TakesThinking:     true,
		Embedding:         embeddingCodec{},
		Moderation:        moderationCodec{},
		FineTuning:        trainer{},
		Models:            modellist.Models,
	}
}
