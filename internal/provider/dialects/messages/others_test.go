package messages

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// Claude's vendors refuse images of the assistant and citations that Anthropic has not made. Other vendors' answers
// have them.
func TestWhatOthersAnsweredIsTakenOut(t *testing.T) {
	const (
		image   = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`
		unmade  = `{"type":"web_search_result_location","cited_text":"","encrypted_index":"","title":"","url":"u"}`
		made    = `{"type":"web_search_result_location","cited_text":"c","encrypted_index":"e","title":"","url":"u"}`
		user    = `{"role":"user","content":[{"type":"text","text":"x"},` + image + `]}`
		said    = `{"type":"text","text":"hello","citations":[`
		nothing = `{"type":"text","text":"","citations":[` + unmade + `]}`
	)
	for given, want := range map[string]string{
		said + unmade + `]},` + image + "," + nothing: `[{"type":"text","text":"hello","citations":null}]`,
		said + unmade + "," + made + `]}`:             `[` + said + made + `]}]`,
		said + made + `]}`:                            `[` + said + made + `]}]`,
		image:                                         `[{"type":"text","text":"."}]`,
	} {
		body := []byte(`{"messages":[` + user + `,{"role":"assistant","content":[` + given + `]},` + user + `]}`)
		got := gjson.ParseBytes(returned(body, openai.Carrier{}, true))
		require.Equal(t, want, got.Get("messages.1.content").Raw, given)
		require.Equal(t, user, got.Get("messages.2").Raw, "the user's images stay")
	}
}
