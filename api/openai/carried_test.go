package openai_test

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

// thinking is what a vendor wants back.
var thinking = jsontext.Value(`{"messages":[` +
	strings.Repeat(`{"type":"thinking","thinking":"a \u00e9","signature":"c2ln"},`, 50) + `{}]}`)

// team is a client.
var team = openai.NewCarrierKey([]byte("pepper")).For("acme", "key_1")

// carriedIDs are what clients and vendors accept as ids.
var carriedIDs = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func TestWhatAnIDCarriesComesBack(t *testing.T) {
	for _, id := range []string{"toolu_1", "call_00_aB-9", "functions.f:0", `a"\é`, "", "_-mg-", "x_-mg-_y",
		"_-mg-_", "a_-mg",
		"_",
		strings.Repeat("long", 500)} {
		carrying := team.Carry(id, thinking)
		require.Regexp(t, carriedIDs, carrying)
		require.Equal(t, carrying, team.Carry(id, thinking), "it is always the same")
		bare, got := team.Split(carrying)
		require.Equal(t, id, bare)
		require.Equal(t, thinking, got)
		require.Equal(t, id, team.Bare(carrying))
	}
	id := team.Carry("toolu_1", thinking)
	require.Less(t, len(id), len(thinking))

	body := `{"model":"m","messages":[{"role":"user","content":"` + id +
		`"},{"role":"assistant","x":{"tool_calls":[{"id":"` + id + `"}]},"tool_calls":[{"id":"` + id +
		`","type":"function","function":{"name":"f","arguments":"` + id + `"}}]},{"role":"tool","tool_call_id":"` + id +
		`","content":"` + id + `"}], "x" : {"tool_call_id":"` + id + `"}, "user":"u" }`
	r, err := team.ParseChatRequest([]byte(body))
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

func TestIDsAreBareHoweverMembersAreWritten(t *testing.T) {
	id := team.Carry(`a"\é`, []byte(`{}`))
	body := message(`{"role":"assistant","content":null,"tool_c\u0061lls":[{"i\u0064":"` + id +
		`"},{"id":null},{}]},{"role":"assistant","content":"x","tool_calls":null},{"role":"tool","tool_call_\u0069d":"` +
		id + `","content":""}`)
	r, err := team.ParseChatRequest([]byte(body))
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(body, id, `a\"\\é`), string(r.Body))
	chat, err := r.Chat()
	require.NoError(t, err)
	require.Equal(t, `a"\é`, chat.Messages[0].ToolCalls[0].ID)
	require.Equal(t, `{}`, string(chat.Messages[0].ToolCalls[0].Carried))
	require.Equal(t, `a"\é`, chat.Messages[2].ToolCallID)
}

// unsigned is an id as a client makes it itself.
func unsigned(id, before, data string) string {
	var b bytes.Buffer
	b.WriteString(before)
	z, _ := flate.NewWriter(&b, flate.BestCompression)
	_, _ = z.Write([]byte(data))
	_ = z.Close()
	return id + openai.CarriedMark + base64.RawURLEncoding.EncodeToString(b.Bytes())
}

// What the gateway did not write for this client is an id: nothing is read from it, and it goes out short.
func TestAnIDThatCarriesNothing(t *testing.T) {
	require.Equal(t, "x", team.Carry("x", nil))
	require.Equal(t, "x", team.Carry("x", bytes.Repeat([]byte("1"), 1<<20)), "too much")
	key := openai.NewCarrierKey([]byte("pepper"))
	good := team.Carry("call_1", thinking)
	shown, payload, _ := strings.Cut(good, openai.CarriedMark)
	moved := func(id string) string { return id + openai.CarriedMark + payload }
	zeros := string(make([]byte, 17))
	for name, id := range map[string]string{
		"another key's":          key.For("acme", "key_2").Carry("call_1", thinking),
		"another organization's": key.For("other", "key_1").Carry("call_1", thinking),
		"of no organization":     key.For("", "key_1").Carry("call_1", thinking),
		"the names run together": key.For("acmek", "ey_1").Carry("call_1", thinking),
		"another gateway's":      openai.NewCarrierKey([]byte("other")).For("acme", "key_1").Carry("call_1", thinking),
		"of no secret":           openai.NewCarrierKey(nil).For("acme", "key_1").Carry("call_1", thinking),
		"another call's":         moved("call_2"), "of no call": moved(""), "a shorter id": moved("call_"),
		"a longer id": moved(shown + "_-"),
		"cut off":     good[:len(good)-1], "cut off in the middle": good[:len(good)/2],
		"cut off at the MAC":  good[:len(shown)+6+22],
		"cut off at the mark": shown + openai.CarriedMark, "a byte more": good + "A", "a newline": good + "\n",
		"padding": good + "=", "twice": good + good, "twice with a mark": good + openai.CarriedMark + payload,
		"the mark twice": shown + openai.CarriedMark + openai.CarriedMark + payload,
		"unsigned":       unsigned("call_1", "", string(thinking)), "zeros": unsigned("call_1", zeros, string(thinking)),
		"no base64": "call_1" + openai.CarriedMark + "!!", "a client's own": "my_-mg-_id",
		"other case":            strings.ToUpper(good),
		"a size beyond the end": unsigned("call_1", zeros[:16]+"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "{}"),
	} {
		bare, data := team.Split(id)
		require.Nil(t, data, name)
		require.Equal(t, bare, team.Bare(id), name)
		if strings.Contains(id, openai.CarriedMark) { // of the upper-case one it is not
			require.Regexp(t, `^call_[A-Za-z0-9_-]{24}$`, bare, name)
		} else {
			require.Equal(t, id, bare, name)
		}
	}
	for i := range len(good) * 8 {
		flipped := []byte(good)
		flipped[i/8] ^= 1 << (i % 8)
		_, data := team.Split(string(flipped))
		require.Nil(t, data, "bit %d", i)
	}
	require.NotEqual(t, team.Bare("a"+openai.CarriedMark), team.Bare("b"+openai.CarriedMark), "two calls stay two")
	for _, none := range []openai.Carrier{{}, (*openai.CarrierKey)(nil).For("acme", "key_1")} {
		require.Equal(t, "x", none.Carry("x", thinking))
		_, data := none.Split(good)
		require.Nil(t, data)
	}
	most := jsontext.Value(`"` + strings.Repeat("a", 256<<10-2) + `"`)
	bare, data := team.Split(team.Carry("x", most))
	require.Equal(t, "x", bare)
	require.Equal(t, most, data)
}

// The gateway signs only what a vendor said, but that may be no JSON.
func TestDataThatIsNoJSONIsNotRead(t *testing.T) {
	for _, data := range []string{`{"a":1`, `{"a":1}],"model":"other"`, `{"a":1,"a":2}`, strings.Repeat("[", 100_000)} {
		bare, got := team.Split(team.Carry("call_1", []byte(data)))
		require.Equal(t, "call_1", bare)
		require.Nil(t, got)
	}
}

// A call and its result keep one id, whatever it is.
func TestAForeignIDNamesTheSameCall(t *testing.T) {
	id := openai.NewCarrierKey([]byte("pepper")).For("acme", "key_2").Carry("call_1", thinking)
	body := message(`{"role":"assistant","tool_calls":[{"id":"` + id + `"}]},{"role":"tool","tool_call_id":"` + id +
		`","content":""}`)
	r, err := team.ParseChatRequest([]byte(body))
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(body, id, team.Bare(id)), string(r.Body))
	chat, err := r.Chat()
	require.NoError(t, err)
	require.Equal(t, team.Bare(id), chat.Messages[0].ToolCalls[0].ID)
	require.Nil(t, chat.Messages[0].ToolCalls[0].Carried)
	require.Equal(t, team.Bare(id), chat.Messages[1].ToolCallID)
}

// A client can send an id that holds a thousand times its size, and send it often. What is read of a request stays in
// proportion to it.
func TestIDsDoNotGrowARequestWithoutEnd(t *testing.T) {
	call := `{"id":"` + team.Carry("a", []byte(`"`+strings.Repeat("a", 200<<10)+`"`)) + `"}`
	body := message(`{"role":"assistant","tool_calls":[` + strings.Repeat(call+",", 999) + call + `]}`)
	r, err := team.ParseChatRequest([]byte(body))
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

func TestStrippingTouchesOnlyPlaces(t *testing.T) {
	id := team.Carry("c1", thinking)
	body := `["` + id + `", "x" , "` + id + `","` + id + `"]`
	s := openai.Stripper{By: team, Body: []byte(body)}
	require.Equal(t, body, string(s.Stripped()))
	quoted := `"` + id + `"`
	s.Strip(strings.Index(body, `"x"`), `"x"`, "x")
	s.Strip(strings.LastIndex(body, quoted), quoted, id)
	require.Equal(t, body[:strings.LastIndex(body, quoted)]+`"c1"]`, string(s.Stripped()))
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
	id := team.Carry("toolu_1", data)
	require.Less(t, len(id), len(data)*4/5)
	_, got := team.Split(id)
	require.Equal(t, string(data), string(got))
}

func FuzzSplitID(f *testing.F) {
	f.Add(team.Carry("call_1", thinking))
	f.Add(unsigned("call_1", "", "{}"))
	f.Fuzz(func(t *testing.T, s string) {
		id, data := team.Split(s)
		require.Equal(t, id, team.Bare(s))
		if data == nil {
			return
		}
		require.True(t, data.IsValid())
		require.Equal(t, s, team.Carry(id, data), "only the gateway writes what is read")
	})
}

func BenchmarkCarryID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		team.Carry("toolu_1", thinking)
	}
}

func BenchmarkSplitID(b *testing.B) {
	id := team.Carry("toolu_1", thinking)
	b.ReportAllocs()
	for b.Loop() {
		team.Split(id)
	}
}
