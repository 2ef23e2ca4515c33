package openai_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/testenv/work"
)

// many repeats text n times, with commas. A # in it becomes a name that nothing else has.
func many(n int, text string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(text, "#",
			string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676%26))+string(rune('a'+i/17576))))
	}
	return b.String()
}

func TestTheBoundsOfARequest(t *testing.T) {
	chat := func(members string) string {
		return `{"model":"m","messages":[{"role":"user","content":"x"}],` + members + `}`
	}
	parse := map[string]func(body string) error{
		"chat":       func(body string) error { _, err := openai.ParseChatRequest([]byte(body)); return err },
		"embeddings": func(body string) error { _, err := openai.ParseEmbeddingRequest([]byte(body)); return err },
		"completion": func(body string) error { _, err := openai.ParseCompletionRequest([]byte(body)); return err },
		"native":     func(body string) error { _, err := openai.ParseNativeRequest([]byte(body)); return err },
	}
	deep := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	long := func(n int) string {
		const before, after = `{"type":"text","a":"`, `"}`
		return before + strings.Repeat("x", n-len(before+after)) + after
	}
	const message, call = `{"role":"user","content":""}`, `{"id":"c","function":{}}`
	for name, c := range map[string]struct {
		operation, within, beyond string
		param, code               string
	}{
		"depth": {"chat", chat(`"m":` + deep(128)), chat(`"m":` + deep(129)), "m", "invalid_value"},
		"depth of a tool": {"chat", chat(`"tools":[{"type":"x","a":` + deep(127) + `}]`),
			chat(`"tools":[{"type":"x","a":` + deep(128) + `}]`), "tools", "invalid_value"},
		"depth of a message": {"chat", `{"model":"m","messages":[{"role":"user","content":"x","a":` + deep(128) + `}]}`,
			`{"model":"m","messages":[{"role":"user","content":"x","a":` + deep(129) + `}]}`, "messages", "invalid_value"},
		"depth of input": {"native", `{"model":"m","input":` + deep(128) + `}`, `{"model":"m","input":` + deep(129) +
			`}`, "input", "invalid_value"},
		"members": {"chat", chat(many(1022, `"#":1`)), chat(many(1023, `"#":1`)), "",
			"object_above_max_properties"},
		"members within": {"chat", chat(`"m":[{` + many(200_000, `"#":1`) + `},{` + many(49_995, `"#":1`) + `}]`),
			chat(`"m":[{` + many(200_000, `"#":1`) + `},{` + many(49_996, `"#":1`) + `}]`), "", "object_above_max_properties"},
		"colons in text": {"chat", chat(`"user":"` + strings.Repeat(`:\"`, 600_000) + `"`),
			chat(`"m":[` + many(250_000, `{"a":1}`) + `]`), "", "object_above_max_properties"},
		"messages": {"chat", `{"model":"m","messages":[` + many(100_000, message) + `]}`,
			`{"model":"m","messages":[` + many(100_001, message) + `]}`, "messages", "array_above_max_length"},
		"tools": {"chat", chat(`"tools":[` + many(10_000, `{"type":"x"}`) + `]`),
			chat(`"tools":[` + many(10_001, `{"type":"x"}`) + `]`), "tools", "array_above_max_length"},
		"stops": {"chat", chat(`"stop":[` + many(10_000, `""`) + `]`),
			chat(`"stop":[` + many(10_001, `""`) + `]`), "stop", "array_above_max_length"},
		"calls": {"chat", `{"model":"m","messages":[{"role":"assistant","tool_calls":[` + many(10_000, call) + `]}]}`,
			`{"model":"m","messages":[{"role":"assistant","tool_calls":[` + many(10_001, call) + `]}]}`,
			"messages[0].tool_calls", "array_above_max_length"},
		"texts": {"embeddings", `{"model":"m","input":[` + many(100_000, `"a"`) + `]}`, `{"model":"m","input":[` +
			many(100_001, `"a"`) + `]}`, "input", "array_above_max_length"},
		"prompts": {"completion", `{"model":"m","prompt":[` + many(100_000, `"a"`) + `]}`, `{"model":"m","prompt":[` +
			many(100_001, `"a"`) + `]}`, "prompt", "array_above_max_length"},
		"references": {"chat", chat(`"tools":[` + many(10_000, `{"type":"x","$ref":"a"}`) + `]`),
			chat(`"tools":[{"type":"x","a":[` + many(10_001, `{"$ref":"a"}`) + `]}]`), "tools", "invalid_json_schema"},
		"schemas": {"chat", chat(`"response_format":` + long(4<<20)), chat(`"response_format":` + long(4<<20+1)),
			"response_format", "invalid_json_schema"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, parse[c.operation](c.within))
			var e *openai.Error
			require.ErrorAs(t, parse[c.operation](c.beyond), &e)
			require.Equal(t, []any{400, c.param, c.code}, []any{e.Status, e.Param, string(e.Code)})
			require.Regexp(t, `\d{3}`, e.Message, "it says the bound")
		})
	}
}

// Before there were bounds, three million members took 942 MB.
func TestTheMemoryOfManyMembers(t *testing.T) {
	refused := []byte(`{"model":"m","messages":[],"m":{` + many(400_000, `"#":1`) + `}}`)
	cost := work.Of(func() { _, err := openai.ParseChatRequest(refused); require.Error(t, err) })
	require.Less(t, cost.Bytes, int64(64<<10), "nothing is kept before the members are counted")
	taken := []byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"m":{` + many(249_900, `"#":1`) + `}}`)
	cost = work.Of(func() { _, err := openai.ParseChatRequest(taken); require.NoError(t, err) })
	require.Less(t, cost.Bytes, 25*int64(len(taken)))
	t.Logf("%d members of %d bytes: %d bytes in all", 249_900, len(taken), cost.Bytes)
	runtime.KeepAlive(taken)
}

func TestASeedIsAnyIntegerOf64Bits(t *testing.T) {
	for _, seed := range []string{"9223372036854775807", "-9223372036854775808", "9007199254740993"} {
		r, err := openai.ParseChatRequest([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"seed":` + seed +
			`}`))
		require.NoError(t, err)
		require.Equal(t, seed, string(r.Get("seed")))
		_, err = openai.ParseCompletionRequest([]byte(`{"model":"m","prompt":"x","seed":` + seed + `}`))
		require.NoError(t, err)
	}
	for seed, code := range map[string]string{"9223372036854775808": "integer_above_max_value",
		"-9223372036854775809": "integer_below_min_value"} {
		_, err := openai.ParseChatRequest([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"seed":` + seed +
			`}`))
		var e *openai.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, [2]string{code, "seed"}, [2]string{string(e.Code), e.Param})
	}
}
