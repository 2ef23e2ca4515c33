package responses

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/forms"
)

// native returns what a vendor with the API gets of items.
func native(t *testing.T, vendor, path, items string) string {
	t.Helper()
	body := []byte(`{"model":"m","input":` + items + `,"tools":[{"type":"function","name":"f"}]}`)
	r, err := parse(inbound.Head{Carrier: chattest.Carrier()}, body)
	if path == compact {
		r, err = parseCompact(inbound.Head{Carrier: chattest.Carrier()}, body)
	}
	require.NoError(t, err)
	v := &provider.Provider{Name: vendor, Native: []string{"/responses", compact}}
	sent, _, err := r.Encode(v, provider.Target{Model: "n", Config: &configv1.Provider{}})
	require.NoError(t, err)
	got, ok := strings.CutSuffix(string(sent.Body), `,"tools":[{"type":"function","name":"f"}]}`)
	require.True(t, ok, string(sent.Body))
	got, ok = strings.CutPrefix(got, `{"model":"n","input":`)
	require.True(t, ok, got)
	return got
}

// A session goes on at a vendor with the API: what the gateway added to ids of other vendors' answers does not go out,
// and what a vendor would refuse of them does not either.
func TestItemsOfOtherVendorsGoToAVendorWithTheAPI(t *testing.T) {
	carrying := chattest.Carrier().Carry("fc1",
		[]byte(`{"google":{"thought_signature":"`+strings.Repeat("abcdefgh", 40)+`"}}`))
	require.NotEqual(t, "fc1", carrying)
	call := func(id string) string {
		return `{"type":"function_call","call_id":"` + id + `","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"` + id + `","output":"x"}`
	}
	for _, vendor := range []string{"openai", "azure", "groq", "xai", "openrouter", "deepseek", "vllm", "ollama",
		"fireworks", "huggingface", "compatible"} {
		for _, path := range []string{path, compact} {
			require.Equal(t, `[{"role":"user","content":"hi"},`+call("fc1")+`]`,
				native(t, vendor, path, `[{"role":"user","content":"hi"},`+call(carrying)+`]`), vendor)
		}
		long := native(t, vendor, path, `[`+call(strings.Repeat("x", 90))+`]`)
		require.Equal(t, 2, strings.Count(long, `"call_id":"`+strings.Repeat("x", 55)+`_`), "%s: %s", vendor, long)
		own := `[ {"type":"reasoning","id":"rs_0123456789abcdef","encrypted_content":"gAAA","summary":[]} , {"type":"message","id":"msg_0123456789abcdef","role":"assistant","content":[]},` + call("call_0123456789abcdefghijklmn") + `]`
		require.Equal(t, own, native(t, vendor, path, own), "the vendor's own items stay as they are")
	}
	for _, vendor := range []string{"openai", "azure", "xai"} {
		require.Equal(t, `[{"role":"user","content":"hi"},{"type":"message","role":"assistant","content":[]}]`, native(t, vendor, path,
			`[{"role":"user","content":"hi"},{"type":"reasoning","id":"rs_gen-1_0","summary":[{"type":"summary_text","text":"t"}]},{"type":"message","id":"msg_gen-1_1","role":"assistant","content":[]}]`))
	}
	strange := native(t, "openai", path, `[`+call("functions.f:0")+`]`)
	require.Equal(t, 2, strings.Count(strange, `"call_id":"functions_f_0_`), strange)
	require.Equal(t, `[`+call("functions.f:0")+`]`, native(t, "vllm", path, `[`+call("functions.f:0")+`]`), "Kimi's own")
	shell := native(t, "openai", path, `[{"type":"local_shell_call","id":"a.b","call_id":"x.y","action":{}},{"type":"local_shell_call_output","id":"x.y","output":"z"}]`)
	plain := forms.Of("openai").Item.Fit("x.y")
	require.Equal(t, `[{"type":"local_shell_call","call_id":"`+plain+`","action":{}},{"type":"local_shell_call_output","id":"`+plain+`","output":"z"}]`, shell)
	require.Equal(t, `"hi"`, native(t, "openai", path, `"hi"`))
}
