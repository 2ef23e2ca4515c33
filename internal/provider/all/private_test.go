package all

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/translate"
)

// What concerns one vendor alone goes to that vendor alone: in each dialect, at each vendor, also if that one speaks
// the same dialect.
func TestWhatConcernsOneVendorGoesToNoOther(t *testing.T) {
	const (
		line  = `x-anthropic-billing-header: cc_version=2; cc_entrypoint=cli; cch=36ee5;`
		asked = `{"type":"text","text":"hi","cache_control":{"type":"ephemeral","scope":"global"}}`
	)
	bodies := map[translate.Endpoint][]string{
		translate.Chat: {
			`"messages":[{"role":"system","content":"` + line + `\nYou are an agent."},{"role":"user","content":"hi"}]`,
			`"messages":[{"role":"developer","content":[{"type":"text","text":"` + line + `"},{"type":"text","text":"You are an agent."}]},{"role":"user","content":"hi"}]`,
			`"messages":[{"role":"system","content":"You are an agent."},{"role":"user","content":"hi"},{"role":"system","content":"` + line + `"},{"role":"user","content":"hi"}]`,
		},
		translate.Messages: {
			`"max_tokens":9,"system":"` + line + `\n\nYou are an agent.","messages":[{"role":"user","content":"hi"}]`,
			`"max_tokens":9,"system":"You are an agent.\n` + line + `","messages":[{"role":"user","content":[` + asked + `]}]`,
			`"max_tokens":9,"system":[{"type":"text","text":"` + line + `"},` + strings.Replace(asked, "hi", "You are an agent.", 1) +
				`],"tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral","scope":"global"}}],"messages":[{"role":"user","content":"hi"}]`,
			`"max_tokens":9,"system":"You are an agent.","messages":[{"role":"user","content":"hi"},{"role":"system","content":"` + line + `\nGo on."}]`,
		},
		translate.Responses: {
			`"instructions":"` + line + `\nYou are an agent.","client_metadata":{"x":"y"},"input":"hi"`,
			`"input":[{"role":"developer","content":[{"type":"input_text","text":"` + line + `"},{"type":"input_text","text":"You are an agent."}]},{"role":"user","content":"hi"}]`,
		},
		translate.Gemini: {
			`"systemInstruction":{"parts":[{"text":"` + line + `"},{"text":"You are an agent."}]},"contents":[{"role":"user","parts":[{"text":"hi"}]}]`,
		},
	}
	models := map[string]string{"anthropic": "claude-sonnet-4-5", "bedrock": "anthropic.claude-sonnet-4-5-20250929-v1:0",
		"vertex": "claude-sonnet-4-5"}
	for vendor, p := range Providers() {
		for _, endpoint := range []string{"", "https://models.example/v1"} {
			model := models[vendor]
			if model == "" {
				model = "m"
			}
			target := provider.Target{Model: model, Config: translate.Complete(p, &configv1.Provider{Endpoint: endpoint})}
			if endpoint == "" {
				target.Config.Endpoint = "" // which a vendor without one of its own needs only to send it
			}
			p := p.For(target.Config)
			for dialect, all := range bodies {
				for _, body := range all {
					r, err := translate.Parse(p, dialect, []byte(`{"model":"m",`+body+`}`))
					require.NoError(t, err)
					sent, _, err := r.Encode(target)
					if err != nil {
						require.Contains(t, err.Error(), "not support", "%s, %s", vendor, dialect)
						continue
					}
					got := string(sent.Body)
					own := vendor == "anthropic" && endpoint == ""
					require.Equal(t, own, strings.Contains(got, "x-anthropic-billing"), "%s, %s, %s", vendor, endpoint, got)
					require.Equal(t, vendor == "openai" && endpoint == "" && strings.Contains(body, "client_metadata"),
						strings.Contains(got, "client_metadata"), "%s: %s", vendor, got)
					require.True(t, gjson.Valid(got))
					require.Contains(t, got, "You are an agent.")
					require.Equal(t, own && strings.Contains(body, `"scope"`), strings.Contains(got, `"scope"`),
						"%s: %s", vendor, got)
				}
			}
		}
	}
}
