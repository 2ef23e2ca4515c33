// Package echo is the built-in provider: it repeats the user's text, so that a first request works without an account.
// It has OpenAI's dialect. Package fakeprovider is its server.
//
// It has no default endpoint. The gateway that serves it configures one.
package echo

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/tuning"
)

// Provider returns the provider. It is safe for concurrent use.
func Provider() provider.Provider {
	d := openaicompat.Dialect{Vendor: "echo", AsReceived: true, Today: true}
	return provider.Provider{
		Name:        "echo",
		Sign:        func(*provider.Request, provider.Signing) error { return nil }, // there is nobody to sign for
		DecodeError: openaicompat.DecodeError,
		Chat:        openaicompat.New(d),
		Embedding:   openaicompat.NewEmbedding(d),
		FineTuning:  tuning.New(tuning.Dialect{}),
	}
}
