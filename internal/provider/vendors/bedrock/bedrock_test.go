package bedrock

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider/providertest"
)

func TestCases(t *testing.T) { providertest.Run(t, Provider()) }

func TestRecordedTraffic(t *testing.T) {
	providertest.Replay(t, Provider(), "bedrock")
}

func TestEmbeddingModels(t *testing.T) {
	for _, model := range []string{"amazon.titan-embed-text-v2:0",
		"arn:aws:bedrock:us-east-1::foundation-model/cohere.embed-english-v3", "us.cohere.embed-v4:0",
		"amazon.titan-embed-text-v1:2:8k"} {
		require.NotNil(t, embeddingFormOf(model), model)
	}
	for _, model := range []string{"amazon.titan-embed-text-v20", "cohere.command-r-v1:0", "", "xcohere.embed-v4"} {
		require.Nil(t, embeddingFormOf(model), model)
	}
}
