package all

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/translate"
)

// A whole answer of a vendor of OpenAI's dialect has the lists that a stream of it has, in each client's dialect.
func TestListsOfWholeAnswersReachEveryDialect(t *testing.T) {
	const (
		begin = `{"id":"a","object":"chat.completion","created":1,"model":"m",`
		end   = `"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2},"choices":[{"index":0,` +
			`"finish_reason":"stop","message":{"role":"assistant","content":"hello"`
		after = `}}]}`
		cited = `,"annotations":[{"type":"url_citation","url_citation":{"url":"https://x.example/","title":"X",` +
			`"start_index":0,"end_index":5}}]`
		image   = `,"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]`
		thought = `,"reasoning_content":"hm","thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"c2ln"}]`
	)
	for name, tc := range map[string]struct {
		endpoint translate.Endpoint
		body     string
		path     string
		want     string
	}{
		"citations, responses": {translate.Responses, begin + end + cited + after,
			"output.0.content.0.annotations.0.url", "https://x.example/"},
		"citations, gemini": {translate.Gemini, begin + end + cited + after,
			"candidates.0.groundingMetadata.groundingChunks.0.web.uri", "https://x.example/"},
		"citations beside it, responses": {translate.Responses, begin + `"citations":["https://x.example/"],` + end + after,
			"output.0.content.0.annotations.0.url", "https://x.example/"},
		"citations beside it, gemini": {translate.Gemini, begin + `"citations":["https://x.example/"],` + end + after,
			"candidates.0.groundingMetadata.groundingChunks.0.web.uri", "https://x.example/"},
		"images, gemini": {translate.Gemini, begin + end + image + after,
			"candidates.0.content.parts.1.inlineData.data", "AAAA"},
		"thoughts, messages": {translate.Messages, begin + end + thought + after, "content.0.signature", "c2ln"},
	} {
		for _, vendor := range []string{"compatible", "openrouter"} {
			p := Providers()[vendor]
			target := provider.Target{Config: translate.Complete(p, &configv1.Provider{Operations: []string{
				provider.OpChat}}), Model: "m"}
			p = p.For(target.Config)
			r, err := translate.Parse(p, tc.endpoint, translate.Ask(tc.endpoint, nil, "m", false, false))
			require.NoError(t, err)
			_, answer, err := r.Encode(target)
			require.NoError(t, err)
			x := translate.Exchange{Provider: p, Request: r, Answer: answer}
			got := x.Respond(translate.Response{Status: 200}, []byte(tc.body))
			require.Equal(t, 200, got.Status, string(got.Body))
			require.Equal(t, tc.want, gjson.GetBytes(got.Body, tc.path).Str, "%s, %s: %s", vendor, name, got.Body)
		}
	}
}
