package messages

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/chat/chattest"
)

const (
	onTheWeb   = `{"type":"web_search_result_location","url":"https://e.example/a","title":"A","cited_text":"x","encrypted_index":"e"}`
	inResults  = `{"type":"search_result_location","source":"https://e.example/b","title":null,"cited_text":"x"}`
	inDocument = `{"type":"char_location","document_index":0,"document_title":"D","cited_text":"x","start_char_index":0,"end_char_index":1}`
	inAFile    = `{"type":"search_result_location","source":"notes/today.md","title":"N","cited_text":"x"}`
)

// Places are counted in characters of the content, which is the text of all blocks.
const cited = `[{"type":"url_citation","url_citation":{"start_index":4,"end_index":6,"title":"A","url":"https://e.example/a"}},` +
	`{"type":"url_citation","url_citation":{"start_index":4,"end_index":6,"title":"","url":"https://e.example/b"}}]`

func TestCitationsOfAWholeAnswer(t *testing.T) {
	body := `{"type":"message","id":"m","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"text","text":"é 😀 "},
		{"type":"text","text":"b\n","citations":[` + strings.Join([]string{onTheWeb, inResults, inDocument, inAFile, onTheWeb}, ",") + `]},{"type":"text","text":"c"}],"stop_reason":"end_turn"}`
	out, _, err := chattest.Decode((&Answer{}), []byte(body), "m", 1)
	require.NoError(t, err)
	message := gjson.GetBytes(out, "choices.0.message")
	require.Equal(t, "é 😀 b\nc", message.Get("content").Str)
	require.Equal(t, cited, message.Get("annotations").Raw)
	require.False(t, message.Get("tool_calls").Exists())
}

func TestCitationsOfAStream(t *testing.T) {
	block := func(b string) string {
		return `{"type":"content_block_start","index":1,"content_block":` + b + `}`
	}
	delta := func(d string) string {
		return `{"type":"content_block_delta","index":1,"delta":` + d + `}`
	}
	const end = `{"type":"content_block_stop","index":1}`
	got, _, err := stream(t, &Answer{}, started,
		block(`{"type":"text","text":""}`), delta(`{"type":"text_delta","text":"é "}`),
		delta(`{"type":"text_delta","text":"😀 "}`), end,
		block(`{"type":"text","text":"","citations":[`+onTheWeb+`]}`), delta(`{"type":"citations_delta","citation":`+
			inResults+`}`),
		delta(`{"type":"citations_delta","citation":`+inDocument+`}`), delta(`{"type":"text_delta","text":"b\n"}`), end,
		block(`{"type":"text","text":"","citations":[`+inDocument+`]}`), delta(`{"type":"text_delta","text":"c"}`), end,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, stopped)
	require.NoError(t, err)
	require.Equal(t, role+`{"content":"é "}`+"\n"+`{"content":"😀 "}`+"\n"+`{"content":"b\n"}`+"\n"+`{"content":"c"}`+"\n"+
		`{"annotations":`+cited+`}`+"\n{}stop", got)
}

func TestCitationsOfAStructuredAnswerSayNothing(t *testing.T) {
	body := `{"type":"message","id":"m","content":[{"type":"text","text":"a","citations":[` + onTheWeb +
		`]},{"type":"tool_use","id":"t","name":"give_answer","input":{"a":1}}],"stop_reason":"tool_use"}`
	out, _, err := chattest.Decode((&Answer{answerTool: "give_answer"}), []byte(body), "m", 1)
	require.NoError(t, err)
	require.False(t, gjson.GetBytes(out, "choices.0.message.annotations").Exists())
}
