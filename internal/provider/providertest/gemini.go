package providertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// askGemini returns the request of a client of Google's API, with the members model and stream for its path.
func askGemini(rec *recording, want *answerFacts) []byte {
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"contents":[{"role":"user","parts":[{"text":"x"}]}],`+
		`"generationConfig":{"maxOutputTokens":64000,"thinkingConfig":{"includeThoughts":true}}`, replayed, rec.streamed)
	list, tools := "", want.tools()
	for _, tool := range gjson.Get("{"+tools[min(1, len(tools)):]+"}", "tools").Array() {
		list += fmt.Sprintf(`,{"name":%q,"parameters":{"type":"OBJECT"}}`, tool.Get("function.name").Str)
	}
	if list != "" {
		body += `,"tools":[{"functionDeclarations":[` + list[1:] + "]}]"
	}
	return []byte(body + "}")
}

// readChunks returns the data of each event. Google's have no names.
func readChunks(t testing.TB, body string) []gjson.Result {
	t.Helper()
	var chunks []gjson.Result
	for event := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		require.True(t, ok && gjson.Valid(data), "not an event with JSON: %q", event)
		chunks = append(chunks, gjson.Parse(data))
	}
	return chunks
}

// requireGeminiChunks checks that every chunk is an answer of the model, and that a stream ends with a reason or with
// an error.
func requireGeminiChunks(t testing.TB, o outcome, model string, chunks []gjson.Result) {
	t.Helper()
	require.NotEmpty(t, chunks)
	for i, c := range chunks {
		if e := c.Get("error"); e.Exists() {
			require.NotEmpty(t, o.Err)
			require.NotEmpty(t, e.Get("status").Str)
			require.NotEmpty(t, e.Get("message").Str)
			require.Positive(t, e.Get("code").Int())
			require.Equal(t, len(chunks)-1, i, "nothing comes after an error")
			continue
		}
		if version := c.Get("modelVersion"); version.Exists() {
			require.Equal(t, model, version.Str)
		}
		for _, part := range c.Get("candidates.#.content.parts|@flatten").Array() {
			if call := part.Get("functionCall"); call.Exists() && call.Get("args").Exists() {
				require.True(t, call.Get("args").IsObject(), call.Raw)
			}
		}
	}
	if o.Err == "" {
		require.True(t, ends(chunks, "candidates.0.finishReason", "promptFeedback.blockReason"))
	}
}
