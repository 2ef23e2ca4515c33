package mistral

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
)

// events collects what an answer emits.
type events []chat.Event

func (e *events) Put(event chat.Event) { *e = append(*e, event) }

// TestModerationsSayWhetherATextIsFlagged: the vendor names categories only. The answer is by hand, after
// https://docs.mistral.ai/capabilities/guardrailing.
func TestModerationsSayWhetherATextIsFlagged(t *testing.T) {
	r, err := openai.ParseNativeRequest([]byte(`{"model":"m/mistral-moderation-latest","input":["a","b"]}`))
	require.NoError(t, err)
	sent, answer, err := moderationCodec{}.Encode(r, provider.Target{Config: &configv1.Provider{},
		Model: "mistral-moderation-latest"})
	require.NoError(t, err)
	require.Equal(t, "/moderations", sent.Path)
	require.JSONEq(t, `{"model":"mistral-moderation-latest","input":["a","b"]}`, string(sent.Body))

	var got events
	require.NoError(t, answer.Decode([]byte(`{"id":"4d71","model":"mistral-moderation-2411","usage":{"prompt_tokens":9},`+
		`"results":[{"categories":{"sexual":false,"pii":true},"category_scores":{"sexual":0.1,"pii":0.9}},`+
		`{"categories":{"sexual":false,"pii":false},"category_scores":{"sexual":0,"pii":0.2}}]}`),
		chat.Asked{Model: "m/mistral-moderation-latest"}, &got))
	require.EqualValues(t, 9, got[0].Usage.PromptTokens)
	require.JSONEq(t, `{"id":"4d71","model":"m/mistral-moderation-latest","results":[`+
		`{"flagged":true,"categories":{"sexual":false,"pii":true},"category_scores":{"sexual":0.1,"pii":0.9}},`+
		`{"flagged":false,"categories":{"sexual":false,"pii":false},"category_scores":{"sexual":0,"pii":0.2}}]}`,
		string(got[1].JSON))
	require.ErrorIs(t, answer.Decode([]byte(`{"id":"x"}`), chat.Asked{}, &got), provider.ErrNotAnAnswer)
	require.ErrorIs(t, answer.Decode([]byte(`<html>`), chat.Asked{}, &got), provider.ErrNotAnAnswer)
}
