package overchat_test

import (
	"testing"

	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/providertest"
)

// acme is a vendor of chat completions alone.
func acme() provider.Provider {
	return provider.Provider{
		Name:            "acme",
		DefaultEndpoint: "https://acme.example/v1",
		Sign:            openaicompat.Bearer,
		DecodeError:     openaicompat.DecodeError,
		Chat:            openaicompat.New(openaicompat.Dialect{Vendor: "acme", Unsupported: []string{"logit_bias"}}),
	}
}

func TestCases(t *testing.T) { providertest.Run(t, acme()) }

func FuzzAnswers(f *testing.F) { providertest.Fuzz(f, acme()) }
