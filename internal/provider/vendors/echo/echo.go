// Package echo is the provider that is built into the gateway: it repeats what the user said, so that a first request
// works without any account. It speaks OpenAI's dialect; package fakeprovider is the server behind it.
//
// It has no endpoint of its own. The gateway that serves it says where.
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
