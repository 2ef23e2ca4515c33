package metering

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/tokens"
	"github.com/modelgate/modelgate/internal/translate"
)

var words = strings.Fields(`the gateway charges every stream for what it has sent and nothing else \n\n func(t *testing.T) {\n\treturn
	Übermaß süß 漢字 かな 数える 🙂 1234 3.14159 https://example.com/path?q=1 "quoted" back\slash don't can't it's`)

// deltas returns about n pieces of text as models give them.
func deltas(random *rand.Rand, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = " " + words[random.IntN(len(words))]
	}
	return out
}

// textOf returns a text that has taken an answer with the deltas, each told by say.
func textOf(deltas []string, say func(x *Text, delta string)) *Text {
	var x Text
	for _, d := range deltas {
		say(&x, d)
	}
	return &x
}

func say(x *Text, delta string) { x.Put(chat.Text(0, delta)) }

func TestAStreamThatIsCutIsChargedForWhatItHasSent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 6))
	for _, model := range []string{"gpt-4o", "gpt-4", "llama-3.3"} {
		for range 6 {
			d := deltas(random, 20+random.IntN(1000))
			d = d[:1+random.IntN(len(d))]
			want := tokens.Count("openai", model, strings.Join(d, ""))
			x := textOf(d, say)
			u, estimated := x.Usage("openai", model, openai.Usage{}, false)
			require.True(t, estimated)
			require.InDelta(t, want, u.CompletionTokens, 1+0.03*float64(want))
			require.Equal(t, u.PromptTokens+u.CompletionTokens, u.TotalTokens)
		}
	}
}

func TestALongAnswerIsSampled(t *testing.T) {
	d := deltas(rand.New(rand.NewPCG(2, 6)), 15_000)
	x := textOf(d, say)
	want := tokens.Count("openai", "gpt-4o", strings.Join(d, ""))
	u, _ := x.Usage("openai", "gpt-4o", openai.Usage{}, false)
	require.InEpsilon(t, want, u.CompletionTokens, 0.03)
}

func TestWhatTheVendorReportsIsCharged(t *testing.T) {
	reported := openai.Usage{PromptTokens: 7, CompletionTokens: 3, TotalTokens: 10, CachedTokens: 2, ReasoningTokens: 1}
	x := textOf([]string{"much ", "more ", "than ", "three ", "tokens "}, say)
	x.Request([]byte(`{"messages":[{"role":"user","content":"hello"}]}`))
	u, estimated := x.Usage("openai", "gpt-4o", reported, true)
	require.Equal(t, reported, u)
	require.False(t, estimated)
}

func TestAnAnswerOfWhichNothingIsReportedIsCounted(t *testing.T) {
	x := textOf([]string{"Hello", "!", " How", " can", " I", " help", " you", " today", "?"}, say)
	x.Request([]byte(`{"messages":[{"role":"user","content":"hello"}]}`))
	u, estimated := x.Usage("openai", "gpt-4.5-preview", openai.Usage{}, true)
	require.True(t, estimated)
	require.Equal(t, openai.Usage{PromptTokens: 8, CompletionTokens: 10, TotalTokens: 18}, u, "as OpenAI has counted it")
}

func TestWhatWasReportedEarlyIsKept(t *testing.T) {
	d := deltas(rand.New(rand.NewPCG(3, 6)), 400)
	rest := tokens.Count("openai", "gpt-4o", strings.Join(d[200:], ""))
	all := tokens.Count("openai", "gpt-4o", strings.Join(d, ""))
	early := openai.Usage{PromptTokens: 1234, CompletionTokens: 1, TotalTokens: 1235, CachedTokens: 1000}
	for name, c := range map[string]struct {
		at       int // the delta before which the usage is reported
		reported int64
		want     int64
		exact    bool
	}{
		"at the beginning, as Anthropic does":  {0, 1, all, false},
		"at the beginning, without output":     {0, 0, all, false},
		"in the middle":                        {200, 500, 500 + rest, false},
		"in the middle, more than was counted": {200, 5000, 5000 + rest, false},
		"with the last chunk, as xAI does":     {400, 777, 777, true},
	} {
		t.Run(name, func(t *testing.T) {
			usage := early
			usage.CompletionTokens = c.reported
			var x Text
			x.Request([]byte(`{"messages":[{"role":"user","content":"hello"}]}`))
			var told openai.Usage
			for i := 0; ; i++ {
				if i == c.at {
					told = usage
				}
				x.Report(told)
				if i == len(d) {
					break
				}
				x.Put(chat.Text(0, d[i]))
			}
			u, estimated := x.Usage("anthropic", "gpt-4o", told, false)
			require.Equal(t, !c.exact, estimated)
			require.EqualValues(t, 1234, u.PromptTokens)
			require.EqualValues(t, 1000, u.CachedTokens)
			require.InDelta(t, c.want, u.CompletionTokens, 0.03*float64(c.want))
		})
	}
}

func TestEverythingThatTheModelSaysCounts(t *testing.T) {
	const sentence = " one two three four five six seven eight nine ten"
	event := func(choice string) func(*Text, string) {
		return func(x *Text, s string) {
			streamed(t, x, "openai", "data: "+strings.Replace(choice, "%", s, 1)+"\n\n")
		}
	}
	for name, say := range map[string]func(x *Text, s string){
		"content":   say,
		"reasoning": func(x *Text, s string) { x.Put(chat.Reasoning(0, s)) },
		"refusal":   func(x *Text, s string) { x.Put(chat.Refusal(0, s)) },
		"arguments": func(x *Text, s string) { x.Put(chat.Arguments(0, 0, s)) },
		"a chunk":   event(`{"choices":[{"index":0,"delta":{"role":"assistant","content":"%"}}]}`),
		"arguments in a chunk": event(
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%"}}]}}]}`),
		"older function":             event(`{"choices":[{"index":0,"delta":{"function_call":{"arguments":"%"}}}]}`),
		"white space between tokens": event(`{ "choices" : [ { "index" : 0 , "delta" : { "content" : "%" } } ] }`),
		"a completion": func(x *Text, s string) {
			streamedOf(t, x, translate.Completions, "openai", `data: {"id":"a","choices":[{"text":"`+s+
				`","index":0,"logprobs":null,"finish_reason":null}]}`+"\n\n")
		},
		"an event of a response": func(x *Text, s string) {
			x.Events(
				[]byte("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"m\",\"delta\":\""+s+"\"}\n\n"), openai.Usage{})
		},
		"the fifth choice": func(x *Text, s string) { x.Put(chat.Text(4, s)) },
	} {
		t.Run(name, func(t *testing.T) {
			x := textOf([]string{sentence, sentence, sentence}, say)
			u, _ := x.Usage("openai", "gpt-4o", openai.Usage{}, false)
			require.EqualValues(t, 30, u.CompletionTokens)
			if name == "reasoning" {
				require.EqualValues(t, 30, u.ReasoningTokens)
			}
		})
	}
}

func TestOnlyWhatTheModelSaysCounts(t *testing.T) {
	for name, event := range map[string]string{
		"ids and names of others": `{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}],"obfuscation":"xxxx"}`,
		"probabilities":           `{"choices":[{"index":0,"delta":{},"logprobs":{"content":[{"token":"a","bytes":[97],"top_logprobs":[{"token":"b"}]}]}}]}`,
		"speech":                  `{"type":"response.audio.delta","delta":"AAAABBBBCCCC"}`,
		"an image":                `{"type":"image_generation.partial_image","b64_json":"AAAABBBBCCCC"}`,
		"the end of a text":       `{"type":"response.output_text.done","text":"again"}`,
		"what is no JSON":         `[DONE]`,
		"half of a string":        `{"choices":[{"index":0,"delta":{"role":"assis`,
	} {
		t.Run(name, func(t *testing.T) {
			var x Text
			x.Events([]byte("data: "+event+"\n\n: a comment with \"content\":\"a\"\n\n"), openai.Usage{})
			if gjson.Valid(event) && gjson.Get(event, "choices").Exists() {
				streamed(t, &x, "openai", "data: "+event+"\n\n")
			}
			u, _ := x.Usage("openai", "gpt-4o", openai.Usage{}, false)
			require.Zero(t, u.CompletionTokens)
		})
	}
}

func TestChoicesThatAnswerAtOnceAreCountedApart(t *testing.T) {
	d := deltas(rand.New(rand.NewPCG(4, 6)), 2000)
	var said [8]strings.Builder
	i := 0
	x := textOf(d, func(x *Text, delta string) {
		x.Put(chat.Text(i%len(said), delta))
		said[i%len(said)].WriteString(delta)
		i++
	})
	var want int64
	for i := range said {
		want += tokens.Count("openai", "gpt-4o", said[i].String())
	}
	u, _ := x.Usage("openai", "gpt-4o", openai.Usage{}, false)
	require.InEpsilon(t, want, u.CompletionTokens, 0.03)
	require.LessOrEqual(t, len(x.parts), maxParts)
}

// wholeOf returns a text that has taken a vendor's whole answer.
func wholeOf(t *testing.T, vendor string, body []byte) *Text {
	t.Helper()
	r, err := translate.Parse(all.Providers()[vendor], translate.Chat, translate.Ask(translate.Chat, nil, "m", false,
		false))
	require.NoError(t, err)
	_, answer, err := r.Encode(provider.Target{Model: "m", Config: &configv1.Provider{Name: vendor, Vendor: vendor}})
	require.NoError(t, err)
	var x Text
	_, err = pipeline.New(pipeline.Options{Answer: answer, Writer: r.Operation().Document(chat.Asked{}),
		Meter: &x}).Whole(t.Context(), body)
	require.NoError(t, err)
	return &x
}

func TestAWholeAnswerIsCounted(t *testing.T) {
	x := wholeOf(t, "openai",
		[]byte(`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"one two three","reasoning_content":"four five"},"finish_reason":"stop"}]}`))
	u, estimated := x.Usage("openai", "gpt-4o", openai.Usage{PromptTokens: 9}, true)
	require.True(t, estimated)
	require.Equal(t, openai.Usage{PromptTokens: 9, CompletionTokens: 6, ReasoningTokens: 2, TotalTokens: 15}, u)
}

func TestPromptsAreCountedAsOpenAIDoes(t *testing.T) {
	many := func(n int) string { return strings.Repeat("hello ", n) }
	for name, c := range map[string]struct {
		body string
		want int64
	}{
		"a message":       {`{"messages":[{"role":"user","content":"hello"}]}`, 8},
		"parts":           {`{"messages":[{"role":"user","content":[{"type":"text","text":"hello"},{"type":"text","text":"hello"}]}]}`, 9},
		"an image":        {`{"messages":[{"role":"user","content":[{"type":"text","text":"hello"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`, 8 + perImage},
		"a name":          {`{"messages":[{"role":"user","name":"bob","content":"hello"}]}`, 10},
		"a call's result": {`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_1","content":"hello"}]}`, 14},
		"a completion":    {`{"prompt":"hello hello"}`, 2},
		"texts":           {`{"input":["hello","hello"]}`, 2},
		"a response":      {`{"instructions":"hello","input":[{"role":"user","content":[{"type":"input_text","text":"hello"}]}]}`, 6},
		"a large one":     {`{"messages":[{"role":"user","content":"` + many(40_000) + `"}]}`, 40_000},
		"none":            {`--boundary`, 0},
		"nothing":         {``, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var x Text
			x.Request([]byte(c.body))
			u, _ := x.Usage("openai", "gpt-4o", openai.Usage{}, false)
			require.InDelta(t, c.want, u.PromptTokens, 0.03*float64(c.want)*min(1, float64(c.want/1000)))
		})
	}
}

func TestToolsAreCountedAsOpenAIDoes(t *testing.T) {
	var x Text // developers.openai.com/cookbook/examples/how_to_count_tokens_with_tiktoken has this, and 101 for gpt-4o
	x.Request([]byte(`{"messages":[{"role":"system","content":"You are a helpful assistant that can answer to questions about the weather."},
		{"role":"user","content":"What's the weather like in San Francisco?"}],"tools":[{"type":"function","function":{"name":"get_current_weather",
		"description":"Get the current weather in a given location","parameters":{"type":"object","properties":{"location":{"type":"string",
		"description":"The city and state, e.g. San Francisco, CA"},"unit":{"type":"string","description":"The unit of temperature to return","enum":["celsius","fahrenheit"]}},"required":["location"]}}}]}`))
	u, _ := x.Usage("openai", "gpt-4o", openai.Usage{}, false)
	require.InDelta(t, 101, u.PromptTokens, 4)
}

func BenchmarkTextOfAChunk(b *testing.B) {
	b.ReportAllocs()
	var x Text
	for i := 0; b.Loop(); i++ {
		if i%1000 == 0 {
			x = Text{}
		}
		x.Put(chat.Event{Kind: chat.KindText, JSON: []byte(`" gateway"`)})
	}
}

func BenchmarkTextOfARequest(b *testing.B) {
	for _, size := range []int{2, 100, 1000} {
		body := []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat("hello ", size*170) + `"}]}`)
		b.Run(fmt.Sprint(size, "KB"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var x Text
				x.Request(body)
			}
		})
	}
}

// streamed gives a text the pieces of a vendor's stream, and returns what the vendor has reported by then.
func streamed(t *testing.T, x *Text, vendor string, pieces ...string) openai.Usage {
	t.Helper()
	return streamedOf(t, x, translate.Chat, vendor, pieces...)
}

func streamedOf(t *testing.T, x *Text, e translate.Endpoint, vendor string, pieces ...string) openai.Usage {
	t.Helper()
	r, err := translate.Parse(all.Providers()[vendor], e, translate.Ask(e, nil, "m", true, true))
	require.NoError(t, err)
	_, answer, err := r.Encode(provider.Target{Model: "m", Config: &configv1.Provider{Name: vendor, Vendor: vendor}})
	require.NoError(t, err)
	asked := chat.Asked{Model: "m", Created: 1, IncludeUsage: true}
	p := pipeline.New(pipeline.Options{Answer: answer, Asked: asked, Writer: r.Operation().Stream(asked), Meter: x})
	for _, piece := range pieces {
		_, err := p.Piece(t.Context(), []byte(piece), false)
		require.NoError(t, err)
		x.Report(p.Usage())
	}
	return p.Usage()
}

func TestVendorsReportBeforeTheEnd(t *testing.T) {
	const said = "The gateway charges for what was said."
	counted := tokens.Count("", "m", said)
	for name, c := range map[string]struct {
		vendor string
		pieces []string
		want   openai.Usage
		exact  bool
	}{
		"Anthropic tells the prompt first": {"anthropic", []string{
			`data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":25,"cache_read_input_tokens":100,"cache_creation_input_tokens":0,"output_tokens":1}}}` + "\n\n",
			`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n",
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + said + `"}}` + "\n\n",
		}, openai.Usage{PromptTokens: 125, CachedTokens: 100, CompletionTokens: counted}, false},
		"and the output before the end mark": {"anthropic", []string{
			`data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":25,"output_tokens":1}}}` + "\n\n",
			`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n",
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + said + `"}}` + "\n\n" +
				`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":77}}` + "\n\n",
		}, openai.Usage{PromptTokens: 25, CompletionTokens: 77}, true},
		"Gemini tells both with each piece": {"gemini", []string{
			`data: {"candidates":[{"content":{"parts":[{"text":"` + said +
				`"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":33,"totalTokenCount":42}}` + "\n\n",
		}, openai.Usage{PromptTokens: 9, CompletionTokens: 33}, true},
		"so does xAI": {"xai", []string{
			`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"` + said + `"}}],"usage":{"prompt_tokens":9,"completion_tokens":33,"total_tokens":42}}` + "\n\n",
		}, openai.Usage{PromptTokens: 9, CompletionTokens: 33}, true},
		"OpenAI tells both when all was said": {"openai", []string{
			`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"` + said + `"},"finish_reason":null}]}` + "\n\n",
			`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":33,"total_tokens":42}}` + "\n\n",
		}, openai.Usage{PromptTokens: 9, CompletionTokens: 33}, true},
		"and nothing before": {"openai", []string{
			`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"` + said + `"},"finish_reason":null}]}` + "\n\n",
		}, openai.Usage{PromptTokens: 8, CompletionTokens: counted}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var x Text
			x.Request([]byte(`{"messages":[{"role":"user","content":"hello"}]}`))
			reported := streamed(t, &x, c.vendor, c.pieces...)
			u, estimated := x.Usage(c.vendor, "m", reported, false)
			require.Equal(t, c.exact, !estimated)
			c.want.TotalTokens = c.want.PromptTokens + c.want.CompletionTokens
			u.TotalTokens = u.PromptTokens + u.CompletionTokens
			require.Equal(t, c.want, u)
		})
	}
}

func TestTheGatewaysOwnProviderIsCountedExactly(t *testing.T) {
	d := deltas(rand.New(rand.NewPCG(9, 6)), 300)
	x := textOf(d, say)
	x.Request([]byte(`{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"one two\nthree"}]}`))
	u, _ := x.Usage("echo", "echo", openai.Usage{}, false)
	require.Equal(t, openai.Usage{PromptTokens: 5, CompletionTokens: 300, TotalTokens: 305}, u)
}
