package messages

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/forms"
)

// What a vendor of Claude would refuse in a client's own request is replaced; all else stays byte for byte.
func TestNativeRequestsThatClaudeWouldRefuse(t *testing.T) {
	const head = `{"model":"claude","messages":[`
	inline := true
	for name, c := range map[string]struct {
		can         *configv1.Capabilities
		given, want string
	}{
		"a system message in the middle": {nil, `{"role":"user","content":"u"},{"role": "system","content":"r","clear_at":"never"},{"role":"system","content":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]}`,
			`{"role":"user","content":"u"},{"role":"user","content":"<system-message>\nr\n</system-message>"},{"role":"user","content":[{"type":"text","text":"<system-message>\ns\n</system-message>","cache_control":{"type":"ephemeral"}}]}`},
		"a model that takes it": {&configv1.Capabilities{InlineSystem: &inline}, `{"role":"user","content":"u"}, {"role":"system","content":"r"}`,
			`{"role":"user","content":"u"}, {"role":"system","content":"r"}`},
		"an id of another vendor": {nil, `{"role":"assistant","content":[{"type":"tool_use","id":"functions.f:0","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"functions.f:0","content":"x"}]}`,
			`{"role":"assistant","content":[{"type":"tool_use","id":"` + forms.Block().Fit("functions.f:0") + `","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + forms.Block().Fit("functions.f:0") + `","content":"x"}]}`},
		"an id in a text": {nil, `{"role":"user","content":"\"tool_use_id\":\"a.b\""}`, `{"role":"user","content":"\"tool_use_id\":\"a.b\""}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := EncodeNative("anthropic", provider.NativeRequest{Body: []byte(head + c.given + `]}`)}, c.can, "claude", "")
			require.Equal(t, head+c.want+`]}`, string(got.Body))
		})
	}
}
