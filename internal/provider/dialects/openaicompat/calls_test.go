package openaicompat

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// calls returns a choice whose delta has these tool_calls.
func calls(elements string) string {
	return chunkOf(`{"index":0,"delta":{"tool_calls":[` + elements + `]},"logprobs":null,"finish_reason":null}`)
}

// madeID is an id that the vendor did not give.
var madeID = regexp.MustCompile(`call_[A-Z2-7]{24}`)

func TestCallsInAStream(t *testing.T) { // pitfalls 1, 4, 5
	const (
		begin = `{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}`
		more  = `{"index":0,"function":{"arguments":"{}"}}`
		other = `{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{\"x\":1}"}}`
		made0 = `{"index":0,"id":"call_MADE","type":"function","function":{"name":"f","arguments":"{}"}}`
	)
	made1 := strings.NewReplacer(`:0`, `:1`, `"f"`, `"g"`).Replace(made0)
	for name, c := range map[string]struct{ in, want []string }{
		"as OpenAI sends them": {[]string{begin, more, other}, []string{begin, more, other}},
		"counted from 3": {[]string{strings.ReplaceAll(begin, ":0", ":3"),
			strings.ReplaceAll(more, ":0", ":3"), strings.ReplaceAll(other, ":1,", ":4,")}, []string{begin, more, other}},
		"all with the index 0": {[]string{begin, more, strings.ReplaceAll(other, ":1,", ":0,")},
			[]string{begin, more, other}},
		"without an index": {[]string{strings.ReplaceAll(begin, `"index":0,`, ""),
			strings.ReplaceAll(more, `"index":0,`, ""), strings.ReplaceAll(other, `"index":1,`, `"index":null,`)},
			[]string{begin, more, other}},
		"two at once": {[]string{strings.ReplaceAll(begin, `""}`, `"{}"}`) + "," + other},
			[]string{strings.ReplaceAll(begin, `""}`, `"{}"}`) + "," + other}},
		"id, type and name in each": {[]string{begin,
			`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}`,
			`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}`, other},
			[]string{begin, more, "", other}},
		"another id in each": {[]string{begin, `{"index":0,"id":"z","function":{"arguments":"{}"}}`, other},
			[]string{begin, more, other}},
		"one id for two": {[]string{`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`,
			`{"index":1,"id":"a","function":{"name":"g","arguments":"{}"}}`},
			[]string{strings.ReplaceAll(begin, `""}`, `"{}"}`), made1}},
		"without ids": {[]string{`{"function":{"name":"f","arguments":"{}"}}`,
			`{"function":{"name":"g","arguments":"{}"}}`}, []string{made0, made1}},
		"without ids, all with index 0": {[]string{`{"index":0,"id":"","function":{"name":"f","arguments":"{}"}}`,
			`{"index":0,"id":null,"function":{"name":"g","arguments":"{}"}}`}, []string{made0, made1}},
		"a name that comes later": {[]string{`{"index":0,"id":"a","function":{"arguments":"{"}}`,
			`{"index":0,"function":{"name":"f","arguments":"}"}}`}, []string{"", strings.ReplaceAll(begin, `""}`, `"{}"}`)}},
		"a name that never comes": {[]string{`{"index":0,"id":"a","function":{"arguments":"{}"}}`,
			strings.ReplaceAll(other, ":1,", ":5,")}, []string{"", strings.ReplaceAll(other, ":1,", ":0,")}},
		"arguments that are an object": {[]string{`{"index":0,"id":"a","function":{"name":"f","arguments":{ "x" : 1 }}}`},
			[]string{strings.ReplaceAll(begin, `""}`, `"{\"x\":1}"}`)}},
		"the same function twice": {[]string{strings.ReplaceAll(begin, `""}`, `"{}"}`),
			`{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}`},
			[]string{strings.ReplaceAll(begin, `""}`, `"{}"}`), strings.NewReplacer(`:0`, `:1`, `"a"`, `"b"`, `""}`,
				`"{}"}`).Replace(begin)}},
		"and with what Google adds": {[]string{
			`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}`}, []string{`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}`}},
		"of a tool that takes text": {[]string{`{"index":0,"id":"a","type":"custom","custom":{"name":"f","input":""}}`,
			`{"index":0,"custom":{"input":"x"}}`},
			[]string{`{"index":0,"id":"a","type":"custom","custom":{"name":"f","input":""}}`,
				`{"index":0,"custom":{"input":"x"}}`}},
		"no arguments":      {[]string{begin, other}, []string{begin, other, more}},
		"arguments of null": {[]string{strings.ReplaceAll(begin, `""}`, "null}")}, []string{begin, more}},
	} {
		t.Run(name, func(t *testing.T) {
			opening := chunkOf(`{"index":0,"delta":{"role":"assistant","content":null},"logprobs":null,"finish_reason":null}`)
			in, want := opening, opening
			for _, elements := range c.in {
				in += calls(elements)
			}
			for _, elements := range c.want {
				if want += calls(elements); elements == "" {
					want = strings.TrimSuffix(want, calls("")) +
						chunkOf(`{"index":0,"delta":{},"logprobs":null,"finish_reason":null}`)
				}
			}
			end := chunkOf(strings.Replace(final, "stop", "tool_calls", 1))
			for _, reason := range []string{"stop", "tool_calls"} {
				got, err := play(Dialect{}, 1, false, []byte(in+chunkOf(strings.Replace(final, "stop", reason, 1))+done))
				require.NoError(t, err)
				require.Equal(t, strings.ReplaceAll(want+end, "data: ", "\ndata: "),
					strings.ReplaceAll(madeID.ReplaceAllString(got, "call_MADE"), "data: ", "\ndata: "), "finish_reason %q", reason)
			}
		})
	}
}

func TestACallThatIsCutStaysSo(t *testing.T) { // pitfall 12
	in := chunkOf(first) + calls(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}`) +
		chunkOf(strings.Replace(final, "stop", "length", 1))
	got, err := play(Dialect{}, 1, false, []byte(in+done))
	require.NoError(t, err)
	require.Equal(t, in, got)
}
