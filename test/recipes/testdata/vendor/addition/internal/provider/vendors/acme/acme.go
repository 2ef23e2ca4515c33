// Package acme is the vendor of the recipe's test. Its API is OpenAI's, without images.
package acme

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

const name = "acme"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "https://api.acme.example/v1",
		CredentialEnv:     "ACME_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       openaicompat.DecodeError,
		Chat:              legacy.Functions(openaicompat.New(openaicompat.Dialect{Vendor: name, Unsupported: []string{"functions", "function_call"}})),
		Models:            modellist.Models,
	}
}
