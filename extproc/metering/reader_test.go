package metering

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/tokens"
)

// promptOf returns the tokens that are charged for a request whose answer was cut.
func promptOf(body string) int64 {
	var x Text
	x.Request([]byte(body))
	u, _ := x.Usage("openai", "gpt-4o", openai.Usage{}, false)
	return u.PromptTokens
}

// escaped returns JSON in which the first letter of every name is an escape.
func escaped(body string) string {
	var b strings.Builder
	for i := 0; i < len(body); i++ {
		b.WriteByte(body[i])
		if body[i] != '"' {
			continue
		}
		end := strings.IndexByte(body[i+1:], '"') + i + 1
		if rest := strings.TrimLeft(body[end+1:], " "); strings.HasPrefix(rest, ":") && end > i+1 {
			fmt.Fprintf(&b, `\u%04x`, body[i+1])
			i++
		}
		b.WriteString(body[i+1 : end+1])
		i = end
	}
	return b.String()
}

// TestNoTextIsFree puts a text into every place that the dialects have for it, and into places that they do not know.
func TestNoTextIsFree(t *testing.T) {
	const said = "lorem ipsum dolor sit amet, consectetur adipiscing elit. "
	big := strings.Repeat(said, 400)
	want := float64(tokens.Count("openai", "gpt-4o", big))
	for name, body := range map[string]string{
		"a message":           `{"messages":[{"role":"user","content":"%"}]}`,
		"a part":              `{"messages":[{"role":"user","content":[{"type":"text","text":"%"}]}]}`,
		"an argument":         `{"messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"a\":\"%\"}"}}]}]}`,
		"a result":            `{"messages":[{"role":"tool","tool_call_id":"a","content":"%"}]}`,
		"a prompt":            `{"prompt":"%"}`,
		"a suffix":            `{"prompt":"a","suffix":"%"}`,
		"a prediction":        `{"messages":[],"prediction":{"type":"content","content":"%"}}`,
		"a tool":              `{"messages":[],"tools":[{"type":"function","function":{"name":"f","description":"%","parameters":{"type":"object"}}}]}`,
		"a tool's schema":     `{"messages":[],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"description":"%"}}}}}]}`,
		"Anthropic's tool":    `{"messages":[],"tools":[{"name":"f","input_schema":{"type":"object","properties":{"a":{"type":"string","description":"%"}}}}]}`,
		"Gemini's tool":       `{"contents":[],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","description":"%"}}]}]}`,
		"Bedrock's tool":      `{"messages":[],"toolConfig":{"tools":[{"toolSpec":{"name":"f","description":"%"}}]}}`,
		"a format":            `{"messages":[],"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"description":"%"}}}}`,
		"a response's format": `{"input":"a","text":{"format":{"type":"json_schema","schema":{"description":"%"}}}}`,
		"Gemini's format":     `{"contents":[],"generationConfig":{"responseSchema":{"description":"%"}}}`,
		"an input":            `{"input":"%"}`,
		"an item":             `{"input":[{"role":"user","content":[{"type":"input_text","text":"%"}]}]}`,
		"instructions":        `{"input":"a","instructions":"%"}`,
		"an output":           `{"input":[{"type":"function_call_output","call_id":"a","output":"%"}]}`,
		"an output's part":    `{"input":[{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"%"}]}]}`,
		"an unknown item":     `{"input":[{"type":"new_item","new_member":{"deep":["%"]}}]}`,
		"a system prompt":     `{"messages":[],"system":[{"type":"text","text":"%"}]}`,
		"a document":          `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"%"}}]}]}`,
		"a document's parts":  `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"text","text":"%"}]}}]}]}`,
		"a document's title":  `{"messages":[{"role":"user","content":[{"type":"document","title":"%","context":"a"}]}]}`,
		"a tool's input":      `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"a":{"b":"%"}}}]}]}`,
		"a tool's result":     `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"%"}]}]}]}`,
		"a search result":     `{"messages":[{"role":"user","content":[{"type":"search_result","source":"%","title":"a"}]}]}`,
		"thoughts":            `{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"%","signature":"s"}]}]}`,
		"Gemini's part":       `{"contents":[{"role":"user","parts":[{"text":"%"}]}]}`,
		"Gemini's call":       `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":"%"}}}]}]}`,
		"Gemini's result":     `{"contents":[{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"result":"%"}}}]}]}`,
		"Gemini's system":     `{"contents":[],"system_instruction":{"parts":[{"text":"%"}]}}`,
		"Gemini's code":       `{"contents":[{"role":"model","parts":[{"executableCode":{"language":"PYTHON","code":"%"}}]}]}`,
		"Bedrock's part":      `{"messages":[{"role":"user","content":[{"text":"%"}]}]}`,
		"Bedrock's result":    `{"messages":[{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[{"json":{"a":"%"}}]}}]}]}`,
		"Cohere's document":   `{"messages":[],"documents":[{"data":{"text":"%"}}]}`,
		"a query":             `{"query":"%","documents":["a"]}`,
		"an unknown member":   `{"messages":[],"new_member":"%"}`,
		"a long role":         `{"messages":[{"role":"%","content":"a"}]}`,
		"an address":          `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.test/%"}}]}]}`,
		"no address":          `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"%"}}]}]}`,
		"an unknown name":     `{"messages":[{"role":"user","content":[{"type":"a","args":{"%":1}}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			body := strings.Replace(body, "%", big, 1)
			require.True(t, json.Valid([]byte(body)), body[:60])
			require.InEpsilon(t, want, float64(promptOf(body)), 0.05)
			if !strings.Contains(name, "unknown name") {
				require.InEpsilon(t, want, float64(promptOf(escaped(body))), 0.05, "with escapes in names")
			}
			small, err := json.Marshal(json.RawMessage(strings.Replace(body, big, "a", 1)))
			require.NoError(t, err)
			require.LessOrEqual(t, promptOf(string(small)), int64(90+perImage), "the frame is not the text: %s", small)
		})
	}
}

// TestNumbersAreTokens: a prompt can be a list of tokens.
func TestNumbersAreTokens(t *testing.T) {
	list := strings.TrimSuffix(strings.Repeat("1234,", 5000), ",")
	for _, body := range []string{`{"prompt":[%]}`, `{"prompt":[[%]]}`, `{"input":[%]}`} {
		require.EqualValues(t, 5000, promptOf(strings.Replace(body, "%", list, 1)))
	}
}

// TestWhatIsNoPromptIsNotCharged is about the members that the model does not read.
func TestWhatIsNoPromptIsNotCharged(t *testing.T) {
	long := strings.Repeat("lorem ipsum ", 30)
	body := `{"model":"gpt-4o","messages":[{"role":"user","content":"hello","id":"msg_1"}],"temperature":0.7,"stream":true,
		"stream_options":{"include_usage":true},"metadata":{"a":"%"},"user":"%","stop":["%"],"tool_choice":"auto",
		"response_format":{"type":"json_object"},"reasoning_effort":"low","seed":12345,"logit_bias":{"1":-100}}`
	require.EqualValues(t, 8, promptOf(strings.ReplaceAll(body, "%", long)))
	sealedBody := `{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"hello","signature":"%"}]}]}`
	require.EqualValues(t, 8, promptOf(strings.Replace(sealedBody, "%", long, 1)))
}

func TestBodiesThatAreNoneAreRead(t *testing.T) {
	for _, body := range []string{``, `{`, `[`, `{"a`, `{"a"`, `{"a":`, `{"messages":[{`,
		`{"messages":}`, `{"messages":]}`, `{"messages":[}`, `{"messages":[{"content":]}]}`, `{]`, `}`, `{"input":[1,]}`,
		`{"tools":[`, `{"text":`, `null`, `{"a\`,
		`{"messages":[{"role":tru`} {
		promptOf(body)
	}
	random := rand.New(rand.NewPCG(7, 7))
	whole := `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"source":{"data":"` +
		base64.StdEncoding.EncodeToString(make([]byte, 3000)) + `"}}]}],"tools":[{"a":1}]}`
	for range 2000 {
		b := []byte(whole)
		b[random.IntN(len(b))] = `{}[]",:\0`[random.IntN(9)]
		promptOf(string(b[:random.IntN(len(b))]))
	}
}

// mediaData returns n bytes of base64 of data that begins with something.
func mediaData(head string, n int) string {
	b := make([]byte, n*3/4)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	copy(b, head)
	return base64.StdEncoding.EncodeToString(b)
}

// TestTextWithoutSpacesIsText: it is told from media by where it lies and by what it is.
func TestTextWithoutSpacesIsText(t *testing.T) {
	csv := strings.Repeat("12345,678,90123,", 4000)
	hex := strings.Repeat("0123456789abcdef", 4000)
	words := strings.Repeat("loremIpsumDolorSitAmet", 3000)
	png := "data:image/png;base64," + mediaData("\x89PNG\x0d\x0a\x1a\x0a", 64_000)
	for name, text := range map[string]string{"csv": csv, "hex": hex, "words": words,
		"lines": strings.Repeat("word\\n", 12_000),
		"code":  strings.Repeat("function(a,b){return(a+b)};", 2500), "an image in a text": png} {
		for _, body := range []string{`{"messages":[{"role":"user","content":"%"}]}`, `{"input":["%"]}`,
			`{"contents":[{"parts":[{"text":"%"}]}]}`, `{"messages":[{"content":[{"source":{"type":"text","data":"%"}}]}]}`} {
			if name == "an image in a text" && strings.Contains(body, "source") {
				continue // a reservation does not look at what lies beside it
			}
			body := strings.Replace(body, "%", text, 1)
			require.GreaterOrEqual(t, textTokens([]byte(body)), int64(len(text)/4), "%s: %s", name, body[:40])
			require.GreaterOrEqual(t, promptOf(body), int64(len(text)/8), "%s: %s", name, body[:40])
		}
	}
}

func TestMediaAreNoText(t *testing.T) {
	image := mediaData("\x89PNG\x0d\x0a\x1a\x0a", 400_000)
	for name, body := range map[string]string{
		"a URL":              `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,%"}}]}]}`,
		"escaped slashes":    `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image\/png;base64,%"}}]}]}`,
		"Anthropic's":        `{"messages":[{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%"}}]}]}`,
		"Gemini's":           `{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"%"}}]}]}`,
		"Bedrock's":          `{"messages":[{"content":[{"image":{"format":"png","source":{"bytes":"%"}}}]}]}`,
		"of a response":      `{"input":[{"content":[{"type":"input_image","image_url":"data:image/png;base64,%"}]}]}`,
		"of a tool's result": `{"messages":[{"content":[{"type":"tool_result","content":[{"type":"image","source":{"type":"base64","data" : "%"}}]}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			data := image
			if name == "escaped slashes" {
				data = strings.ReplaceAll(image, "/", `\/`)
			}
			body := strings.Replace(body, "%", data, 1)
			require.InDelta(t, perImage, promptOf(body), 20)
			require.InDelta(t, mediaTokens, textTokens([]byte(body)), 60)
		})
	}
	document := func(head string) int64 {
		return promptOf(`{"messages":[{"content":[{"type":"document","source":{"type":"base64","data":"` +
			mediaData(head, 320_000) + `"}}]}]}`)
	}
	require.InDelta(t, 20_000, document("%PDF-1.7\n"), 100, "ten pages")
	require.InDelta(t, 200, document("RIFF\x00\x00\x00\x00WAVEfmt "), 300)
	plain := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("Lorem ipsum dolor sit amet, consectetur. ", 4000)))
	require.InDelta(t, 41_000, promptOf(`{"messages":[{"content":[{"file":{"file_data":"data:text/plain;base64,`+plain+
		`"}}]}]}`), 100)
}
