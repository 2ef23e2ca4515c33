package reported

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestAcmeIsReported(t *testing.T) {
	u := Read([]byte(`{"completion_tokens":10,"completion_tokens_details":{"acme_tokens":4}}`))
	require.Equal(t, openai.Usage{CompletionTokens: 10, TotalTokens: 10, AcmeTokens: 4}, u.OpenAI())
}
