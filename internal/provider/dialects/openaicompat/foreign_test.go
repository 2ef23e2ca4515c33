package openaicompat

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/provider"
)

// What one vendor's answers have in messages goes to no vendor that would refuse it.
func TestWhatOtherVendorsAnsweredStaysHere(t *testing.T) {
	const (
		reasoning = `,"reasoning_content":"r"`
		details   = `,"reasoning_details":[{"type":"reasoning.text","text":"r"}]`
		images    = `,"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]`
		extra     = `"extra_content":{"google":{"thought_signature":"s"}}`
		said      = `{"role":"assistant","content":"hi"`
	)
	calls := func(extra string) string {
		return `,"tool_calls":[{` + extra + `"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	}
	full := said + reasoning + details + images + calls(extra+",")
	for name, c := range map[string]struct {
		dialect Dialect
		want    string
	}{
		"OpenAI's own":               {Dialect{AsReceived: true}, said + calls("")},
		"a vendor that reasons":      {Dialect{}, said + reasoning + calls("")},
		"OpenRouter":                 {Dialect{Carry: []string{"reasoning_details"}}, said + reasoning + details + calls("")},
		"a server that nobody knows": {Dialect{Thoughts: true}, full},
	} {
		r := parse(t, `{"model":"m","messages":[{"role":"user","content":"x"},`+full+
			`,{"role":"tool","tool_call_id":"c1","content":"y"}]}`)
		sent, _, err := New(c.dialect).Encode(r, provider.Target{Model: "m"})
		require.NoError(t, err, name)
		require.Equal(t, c.want, gjson.GetBytes(sent.Body, "messages.1").Raw, name)
		require.Empty(t, sent.Dropped, name)
	}
}
