package exchange_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/provider/vendors/anthropic"
)

// An answer may be of several requests of the vendor, at several models: each costs what its model costs, translated
// and as it is.
func TestIterationsAtOtherModelsCostWhatTheseCost(t *testing.T) {
	const answer = `{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[{"type":"text","text":"hi"}],
		"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":20,"iterations":[
		{"type":"message","input_tokens":4,"output_tokens":8},
		{"type":"advisor_message","model":"advisor","input_tokens":100,"output_tokens":50},
		{"type":"message","input_tokens":6,"output_tokens":12}]}}`
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"a/m-1","messages":[{"role":"user","content":"hi"}]}`,
		"/v1/messages":         `{"model":"a/m-1","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`,
	} {
		t.Run(path, func(t *testing.T) {
			m := feeMeter(t, anthropic.Provider())
			m.config.Catalog = catalog.New(&configv1.Catalog{Models: []*configv1.ModelFacts{
				{Models: []string{"m-1"}, Price: &configv1.Price{Input: "1", Output: "2"}},
				{Models: []string{"advisor"}, Price: &configv1.Price{Input: "5", Output: "25"}}}})
			m.configure()
			r := m.asks(path, body, answer)
			require.EqualValues(t, 10*1000+20*2000+100*5000+50*25_000, r.Cost)
			require.EqualValues(t, 110, r.Usage.PromptTokens)
		})
	}
}
