package exchange_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Answers that are no chats are judged whole, and what was used is charged.
func TestRulesJudgeAnswersThatPass(t *testing.T) {
	const drawing = `{"model":"a/m-1","prompt":"a fox"}`
	const drawn = `{"created":1,"data":[{"b64_json":"aGk=","revised_prompt":"for ann@x.example"}],"usage":{"input_tokens":4,"output_tokens":7,"total_tokens":11}}`
	for mode, want := range map[configv1.GuardMode]string{
		configv1.GuardMode_OBSERVE: "for ann@x.example", configv1.GuardMode_MASK: "for [EMAIL]",
		configv1.GuardMode_BLOCK: "",
	} {
		m := guarded(t, emails(mode))
		x, _ := m.ask("/v1/images/generations", drawing)
		answer(x, "200", "application/json")
		out := x.ResponseBody(t.Context(), []byte(drawn), true)
		require.Equal(t, want, gjson.GetBytes(out.Body, "data.0.revised_prompt").Str, "%s", out.Body)
		r := x.Close()
		require.Len(t, r.Guards.Texts(), 1)
		require.EqualValues(t, 11, r.Usage.TotalTokens, "it is charged")
		if mode == configv1.GuardMode_BLOCK {
			require.Equal(t, "400", out.Set.Get(":status"))
			require.Equal(t, "content_blocked", gjson.GetBytes(out.Body, "error.code").Str)
		}
	}
}

// What a vendor answers besides texts comes through rules as it is.
func TestRulesLeaveVectorsAlone(t *testing.T) {
	const vectors = `{"object":"list","model":"m-1","data":[{"object":"embedding","index":0,"embedding":[0.5,-0.25]}],"usage":{"prompt_tokens":11,"total_tokens":11}}`
	m := guarded(t, emails(configv1.GuardMode_MASK))
	x, _ := m.ask("/v1/embeddings", `{"model":"a/m-1","input":"ann@x.example"}`)
	answer(x, "200", "application/json")
	out := x.ResponseBody(t.Context(), []byte(vectors), true)
	require.JSONEq(t, `[0.5,-0.25]`, gjson.GetBytes(out.Body, "data.0.embedding").Raw, "%s", out.Body)
	require.EqualValues(t, 11, x.Close().Usage.TotalTokens)
}

// What a vendor says of a failure is judged like an answer.
func TestRulesJudgeErrors(t *testing.T) {
	for mode, want := range map[configv1.GuardMode]string{
		configv1.GuardMode_OBSERVE: "no ann@x.example", configv1.GuardMode_MASK: "no [EMAIL]",
		configv1.GuardMode_BLOCK: "The guardrail 'g/email' does not allow what the provider said.",
	} {
		m := guarded(t, emails(mode))
		x, _ := m.chat(ask40)
		answer(x, "400", "application/json")
		out := x.ResponseBody(t.Context(), []byte(`{"error":{"message":"no ann@x.example","type":"ann@x.example"}}`), true)
		require.Equal(t, want, gjson.GetBytes(out.Body, "error.message").Str, "%s", out.Body)
		if r := x.Close(); mode != configv1.GuardMode_OBSERVE {
			require.NotContains(t, r.Error.Error(), "ann@x", "nor is it in the log")
			require.NotContains(t, string(out.Body), "ann@x")
		}
	}
}

// A type of answer that nobody can read does not pass rules that do more than observe.
func TestRulesRefuseAnswersThatTheyCannotRead(t *testing.T) {
	for media, passes := range map[string]bool{"audio/mpeg": true, "audio/pcm; rate=24000": true, "text/plain": false,
		"application/xml": false, "audio/ann@x.example": false, "image/svg+xml": false} {
		m := guarded(t, emails(configv1.GuardMode_MASK))
		x, _ := m.ask("/v1/audio/speech", `{"model":"a/m-1","input":"hi","voice":"v"}`)
		reply := answer(x, "200", media)
		require.Equal(t, passes, reply.Immediate == nil, media)
		x.Close()
	}
}
