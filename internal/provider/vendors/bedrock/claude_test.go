package bedrock

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/eventstream"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/converse"
	"github.com/modelgate/modelgate/internal/recordings"
	"github.com/modelgate/modelgate/internal/translate"
)

const sonnet = "us.anthropic.claude-sonnet-4-20250514-v1:0"

// encodeAs encodes a client's request for a model.
func encodeAs(t *testing.T, endpoint, betas, model, body string) (provider.Request, provider.Answer) {
	t.Helper()
	r, err := dialects.Find(endpoint, "").Parse(inbound.Head{Betas: betas}, []byte(body))
	require.NoError(t, err)
	p := Provider()
	sent, answer, err := r.Encode(&p, provider.Target{Config: &configv1.Provider{Name: name}, Model: model})
	require.NoError(t, err)
	return sent, answer
}

// TestClaudesOwnAnswersReachAnthropicsClients plays what was recorded of InvokeModel: the client gets Claude's own
// events and message, but for the name of the model, however the body is cut.
func TestClaudesOwnAnswersReachAnthropicsClients(t *testing.T) {
	files := recordings.Of(t, name)
	played := 0
	for _, meta := range recordings.Glob(t, files, "*-invoke-*/meta.json") {
		model := gjson.GetBytes(recordings.Read(t, files, meta), "model").Str
		body := recordings.Read(t, files, recordings.Glob(t, files, path.Dir(meta)+"/response.*")[0])
		stream := strings.Contains(meta, "-stream")
		if !converse.IsClaude(provider.Target{Model: model}) || !stream && gjson.GetBytes(body, "type").Str != "message" {
			continue
		}
		want := string(body)
		if stream {
			if want = events(t, body); !strings.HasPrefix(want, "event: message_start") {
				continue // the older API
			}
		}
		played++
		t.Run(path.Dir(meta), func(t *testing.T) {
			r, err := translate.Parse(Provider(), translate.Messages, fmt.Appendf(nil,
				`{"model":%q,"max_tokens":9,"stream":%t,"messages":[{"role":"user","content":"x"}]}`, modelOf(want), stream))
			require.NoError(t, err)
			_, answer, err := r.Encode(provider.Target{Config: &configv1.Provider{}, Model: model})
			require.NoError(t, err)
			x := &translate.Exchange{Provider: Provider(), Request: r, Answer: answer}
			from := translate.Response{Status: http.StatusOK, Header: http.Header{}, Body: body}
			got := x.Respond(from, body)
			require.Equal(t, strings.TrimSpace(want), strings.TrimSpace(string(got.Body)))
			require.NoError(t, x.Cuts(from, got))
		})
	}
	require.GreaterOrEqual(t, played, 4)
}

// events returns the events in the frames of a stream, as Anthropic's clients get them.
func events(t *testing.T, body []byte) string {
	var d eventstream.Decoder
	var out strings.Builder
	d.Feed(body)
	for {
		f, ok, err := d.Next()
		require.NoError(t, err)
		if !ok {
			return out.String()
		}
		data, err := base64.StdEncoding.DecodeString(gjson.GetBytes(f.Payload, "bytes").Str)
		require.NoError(t, err)
		fmt.Fprintf(&out, "event: %s\ndata: %s\n\n", gjson.GetBytes(data, "type").Str, data)
	}
}

// modelOf returns the model that an answer names.
func modelOf(answer string) string {
	_, rest, _ := strings.Cut(answer, `"model":`)
	model, _, _ := strings.Cut(strings.TrimLeft(rest, ` "`), `"`)
	return model
}

func TestBetasThatBedrockDoesNotKnowAreDropped(t *testing.T) {
	sent, _ := encodeAs(t, "/v1/messages", "interleaved-thinking-2025-05-14, claude-code-20250219", sonnet,
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`)
	require.Equal(t, `{"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["interleaved-thinking-2025-05-14"],"max_tokens":9,"messages":[{"role":"user","content":"x"}]}`,
		string(sent.Body))
	require.Equal(t, []string{"anthropic-beta"}, sent.Dropped)
}

func TestCountTokens(t *testing.T) {
	const asked = `{"model":"m","messages":[{"role":"user","content":"x"}]}`
	for model, path := range map[string]string{
		sonnet: "/model/anthropic.claude-sonnet-4-20250514-v1%3A0/count-tokens",
		"anthropic.claude-sonnet-4-20250514-v1:0":                        "/model/anthropic.claude-sonnet-4-20250514-v1%3A0/count-tokens",
		"arn:aws:bedrock:eu-west-1::foundation-model/anthropic.claude-x": "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A%3Afoundation-model%2Fanthropic.claude-x/count-tokens",
	} {
		sent, answer := encodeAs(t, "/v1/messages/count_tokens", "", model, asked)
		require.Equal(t, path, sent.Path)
		body, err := base64.StdEncoding.DecodeString(gjson.GetBytes(sent.Body, "input.invokeModel.body").Str)
		require.NoError(t, err)
		require.Equal(t, `{"anthropic_version":"bedrock-2023-05-31","messages":[{"role":"user","content":"x"}],"max_tokens":1}`,
			string(body))
		require.NotNil(t, answer)
	}
	r, err := dialects.Find("/v1/messages/count_tokens", "").Parse(inbound.Head{}, []byte(asked))
	require.NoError(t, err)
	p := Provider()
	_, _, err = r.Encode(&p, provider.Target{Config: &configv1.Provider{}, Model: "us.amazon.nova-lite-v1:0"})
	require.ErrorAs(t, err, new(*inbound.CountHere))
}
