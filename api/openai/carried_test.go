package openai_test

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

// thinking is what a vendor wants back.
var thinking = jsontext.Value(`{"messages":[` +
	strings.Repeat(`{"type":"thinking","thinking":"a \u00e9","signature":"c2ln"},`, 50) + `{}]}`)

// packed is the text of an id that carries anything at all.
func packed(data string) string {
	var b bytes.Buffer
	z, _ := flate.NewWriter(&b, flate.BestCompression)
	_, _ = z.Write([]byte(data))
	_ = z.Close()
	return "~mg1." + base64.RawURLEncoding.EncodeToString(b.Bytes())
}

func TestWhatAnIDCarriesComesBack(t *testing.T) {
	id := openai.CarryID("toolu_1", thinking)
	require.Less(t, len(id), len(thinking))
	bare, got := openai.SplitID(id)
	require.Equal(t, "toolu_1", bare)
	require.Equal(t, thinking, got)

	body := `{"model":"m","messages":[{"role":"user","content":"` + id +
		`"},{"role":"assistant","x":{"tool_calls":[{"id":"` + id + `"}]},"tool_calls":[{"id":"` + id +
		`","type":"function","function":{"name":"f","arguments":"` + id + `"}}]},{"role":"tool","tool_call_id":"` + id +
		`","content":"` + id + `"}], "x" : {"tool_call_id":"` + id + `"}, "user":"u" }`
	r, err := openai.ParseChatRequest([]byte(body))
	require.NoError(t, err)
	want := strings.Replace(body, `"tool_calls":[{"id":"`+id+`","type"`, `"tool_calls":[{"id":"toolu_1","type"`, 1)
	want = strings.Replace(want, `"role":"tool","tool_call_id":"`+id, `"role":"tool","tool_call_id":"toolu_1`, 1)
	require.Equal(t, want, string(r.Body), "only ids are changed")
	require.Equal(t, `"u"`, string(r.Get("user")))
	require.Equal(t, body, string(r.Sent().Body))
	require.Equal(t, strings.Replace(body, `"user":"u"`, `"user":"v"`, 1),
		string(r.Sent().Edit(openai.Edit{Name: "user", Value: []byte(`"v"`)})))
	require.Equal(t, strings.Replace(want, `"user":"u"`, `"user":"v"`, 1),
		string(r.Edit(openai.Edit{Name: "user", Value: []byte(`"v"`)})), "members stand where they are now")
	chat, err := r.Chat()
	require.NoError(t, err)
	require.Equal(t, "toolu_1", chat.Messages[1].ToolCalls[0].ID)
	require.Equal(t, thinking, chat.Messages[1].ToolCalls[0].Carried)
	require.Equal(t, "toolu_1", chat.Messages[2].ToolCallID)
	require.Equal(t, id, chat.Messages[2].Content.Text())
}

func TestIDsAreBareHoweverTheyAreWritten(t *testing.T) {
	id := openai.CarryID(`a"\é`, []byte(`{}`))
	escaped := strings.NewReplacer(`~`, `\u007e`, `"`, `\"`, `\`, `\\`, `é`, `\u00e9`).Replace(id)
	body := message(`{"role":"assistant","content":null,"tool_c\u0061lls":[{"i\u0064":"` + escaped +
		`"},{"id":null},{}]},{"role":"assistant","content":"x","tool_calls":null},{"role":"tool","tool_call_\u0069d":"` +
		escaped + `","content":""}`)
	r, err := openai.ParseChatRequest([]byte(body))
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(body, escaped, `a\"\\é`), string(r.Body))
	chat, err := r.Chat()
	require.NoError(t, err)
	require.Equal(t, `a"\é`, chat.Messages[0].ToolCalls[0].ID)
	require.Equal(t, `{}`, string(chat.Messages[0].ToolCalls[0].Carried))
	require.Equal(t, `a"\é`, chat.Messages[2].ToolCallID)
}

func TestAnIDThatCarriesNothing(t *testing.T) {
	require.Equal(t, "x", openai.CarryID("x", nil))
	require.Equal(t, "x", openai.CarryID("x", bytes.Repeat([]byte("1"), 1<<20)), "too much")
	for name, text := range map[string]string{
		"nothing": "", "an empty text": "~mg1.", "no base64": "~mg1.!!", "not deflated": "~mg1.AAAA",
		"cut off": packed(string(thinking))[:100],
		"no JSON": packed(`{"a":1`), "JSON that closes more than it opens": packed(`{"a":1}],"model":"other"`),
		"a member twice": packed(`{"a":1,"a":2}`),
		"too deep":       packed(strings.Repeat("[", 100_000)), "too much": packed(strings.Repeat(" ", 1<<20) + "1"),
		"too much by far": packed(strings.Repeat(" ", 8<<20)),
		"twice":           openai.CarryID("", thinking) + openai.CarryID("", thinking),
		"old marks":       "~mg1.~mg1.",
	} {
		bare, data := openai.SplitID("call_1" + text)
		require.Equal(t, "call_1", bare, name)
		require.Nil(t, data, name)
	}
	most := jsontext.Value(`"` + strings.Repeat("a", 256<<10-2) + `"`)
	bare, data := openai.SplitID(openai.CarryID("x", most))
	require.Equal(t, "x", bare)
	require.Equal(t, most, data)
}

// A client can make ids that hold a thousand times what they are long. What is read of a request stays in proportion
// to it.
func TestIDsDoNotGrowARequestWithoutEnd(t *testing.T) {
	call := `{"id":"` + packed(`"`+strings.Repeat("a", 200<<10)+`"`) + `"}`
	body := message(`{"role":"assistant","tool_calls":[` + strings.Repeat(call+",", 999) + call + `]}`)
	r, err := openai.ParseChatRequest([]byte(body))
	require.NoError(t, err)
	chat, err := r.Chat()
	require.NoError(t, err)
	size := 0
	for _, c := range chat.Messages[0].ToolCalls {
		size += len(c.Carried)
	}
	require.Positive(t, size)
	require.LessOrEqual(t, size, 4*len(body)+256<<10)
}

// Thinking that compresses as text does, with a signature that does not, fits into an id up to 64 KB of text and more,
// at less than its own size.
func TestTheLongestThinkingFits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 64<<10)
	signature := make([]byte, 48<<10) // 64 KB in base64
	words := strings.Fields("the answer must be that a of tool gives us what we want and then call it with city again")
	for i := 0; i < len(text); {
		i += copy(text[i:], words[random.IntN(len(words))]+" ")
	}
	for i := range signature {
		signature[i] = byte(random.Uint32())
	}
	data, err := json.Marshal(map[string]string{"thinking": string(text),
		"signature": base64.StdEncoding.EncodeToString(signature)})
	require.NoError(t, err)
	id := openai.CarryID("toolu_1", data)
	require.Less(t, len(id), len(data)*4/5)
	_, got := openai.SplitID(id)
	require.Equal(t, string(data), string(got))
}

func FuzzSplitID(f *testing.F) {
	f.Add(openai.CarryID("call_1", thinking))
	f.Add("call_1~mg1.AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		id, data := openai.SplitID(s)
		require.True(t, strings.HasPrefix(s, id))
		if data == nil {
			return
		}
		require.True(t, data.IsValid())
		again, same := openai.SplitID(openai.CarryID(id, data))
		require.Equal(t, id, again)
		require.Equal(t, data, same)
	})
}

func BenchmarkCarryID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		openai.CarryID("toolu_1", thinking)
	}
}

func BenchmarkSplitID(b *testing.B) {
	id := openai.CarryID("toolu_1", thinking)
	b.ReportAllocs()
	for b.Loop() {
		openai.SplitID(id)
	}
}
