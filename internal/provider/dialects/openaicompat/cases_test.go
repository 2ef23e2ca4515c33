package openaicompat_test

import (
	"testing"

	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/providertest"
)

// compatible returns a provider of a vendor without any peculiarity, whose answers are put right.
func compatible() provider.Provider {
	d := openaicompat.Dialect{Vendor: "compatible"}
	return provider.Provider{
		Name:            "compatible",
		DefaultEndpoint: "https://compatible.test/v1",
		Sign:            openaicompat.Bearer,
		DecodeError:     openaicompat.DecodeError,
		Chat:            openaicompat.New(d),
		Completion:      openaicompat.NewCompletion(d),
		Embedding:       openaicompat.NewEmbedding(d),
	}
}

func TestCases(t *testing.T) { providertest.Run(t, compatible()) }

func FuzzAnswers(f *testing.F) { providertest.Fuzz(f, compatible()) }
