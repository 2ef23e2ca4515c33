package responses

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/provider"
)

// What clients of the API send to OpenAI alone stays as it is. Any other vendor, and a model that has several, gets an
// effort that the model has, and users' ids that the vendor takes.
func TestRequestsThatPassFitTheModel(t *testing.T) {
	has := func(efforts ...string) *configv1.Capabilities { return &configv1.Capabilities{Efforts: efforts} }
	long := strings.Repeat("u", 70)
	const high = `{"model":"n","input":"hi","reasoning":{"summary":"auto","effort":"high"}}`
	for name, c := range map[string]struct {
		vendor, members string
		mixed           bool
		can             *configv1.Capabilities
		want            string
		adjusted        []string
	}{
		"OpenAI alone": {"openai", `"reasoning":{"effort":"xhigh"},"user":"` + long + `"`, false, has("low", "high"),
			`{"model":"n","input":"hi","reasoning":{"effort":"xhigh"},"user":"` + long + `"}`, nil},
		"OpenAI among others": {"openai", `"reasoning":{"effort":"xhigh","summary":"auto"}`, true, has("low", "high"), high,
			[]string{"reasoning.effort"}},
		"another vendor": {"groq", `"reasoning":{"effort":"xhigh","summary":"auto"}`, false, has("low", "high"), high,
			[]string{"reasoning.effort"}},
		"an effort that the model has": {"groq", `"reasoning":{"effort":"low"}`, false, has("low", "high"),
			`{"model":"n","input":"hi","reasoning":{"effort":"low"}}`, nil},
		"nothing is known of the model": {"xai", `"reasoning":{"effort":"xhigh"}`, false, nil,
			`{"model":"n","input":"hi","reasoning":{"effort":"xhigh"}}`, nil},
		"a model that does not reason": {"groq", `"reasoning":{"effort":"low"}`, false,
			&configv1.Capabilities{Thinking: configv1.Thinking_NEVER.Enum()}, `{"model":"n","input":"hi"}`,
			[]string{"reasoning.effort"}},
		"an effort that nothing is near": {"groq", `"reasoning":{"effort":"none"}`, false, has("high"),
			`{"model":"n","input":"hi","reasoning":{}}`, []string{"reasoning.effort"}},
		"a user": {"openai", `"safety_identifier":"` + long + `"`, true, nil,
			`{"model":"n","input":"hi","safety_identifier":"` + long[:55] + `_d73ea28d"}`, nil},
	} {
		r, err := parse(inbound.Head{Carrier: chattest.Carrier()}, []byte(`{"model":"m","input":"hi",`+c.members+`}`))
		require.NoError(t, err)
		sent, _, err := r.Encode(&provider.Provider{Name: c.vendor, Native: []string{"/responses"}}, provider.Target{
			Model: "n", Config: &configv1.Provider{}, Mixed: c.mixed, Facts: &configv1.ModelFacts{Capabilities: c.can}})
		require.NoError(t, err)
		require.Equal(t, c.want, string(sent.Body), name)
		require.Equal(t, c.adjusted, sent.Adjusted, name)
	}
}
