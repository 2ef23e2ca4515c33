//go:build !race

package exchange_test

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/testenv/work"
)

// Sizes of what vendors answer: a list that is searched for each of its elements shows.
const (
	smallAnswer = 256 << 10
	largeAnswer = 4 * smallAnswer
)

const (
	freeSteps  = 1 << 20           // of the larger answer, below which nothing is compared
	mostMemory = 300 * largeAnswer // of all that is allocated for the larger one
)

// A dialect is how a vendor answers. In its shapes %d is the number of the repetition.
type dialect struct {
	vendor, model, path string
	frame               func(event string) string // nil: what is repeated is an element of a whole answer
	before, after       string
	shapes              map[string]string
}

// sse is an event of the type that its data begin with, as the vendors that look at names want it.
func sse(data string) string { return "data: " + data + "\n\n" }

// frame is a frame of AWS's event stream; its type stands before a bar.
func frame(event string) string {
	typ, payload, _ := strings.Cut(event, "|")
	var headers []byte
	for _, h := range [][2]string{{":event-type", typ}, {":message-type", "event"}} {
		headers = append(append(append(headers, byte(len(h[0]))), h[0]...), 7)
		headers = append(binary.BigEndian.AppendUint16(headers, uint16(len(h[1]))), h[1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

const chatPath = "/v1/chat/completions"

// dialects are those of the codecs, streamed.
func dialects() []dialect {
	long := strings.Repeat("i", 16<<10)
	compatible := map[string]string{
		"texts": `{"id":"c","choices":[{"index":0,"delta":{"content":"word"}}]}`,
		"a long id": `{"id":"` + long + `","choices":[{"index":0,"delta":{"content":"w"}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"content":"w"}}]}`,
		"choices": `{"id":"c","choices":[{"index":%d,"delta":{"content":"word"}}]}`,
		"many in one": `{"id":"c","x":"` + long + `","choices":[` + strings.Repeat(`{"delta":{"content":"w"}},`,
			500) + `{}]}`,
		"calls":               `{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"f","arguments":"{}"}}]}}]}`,
		"calls of one id":     `{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"c","function":{"name":"f","arguments":"{}"}}]}}]}`,
		"a name that repeats": `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"[\"}"}}]}}]}`,
		"thoughts in details": `{"choices":[{"delta":{"reasoning_details":[{"type":"t","index":0,"text":"word","signature":"s"}]}}]}`,
		"finishes":            `{"choices":[{"index":%d,"delta":{},"finish_reason":"stop"}]}`,
		"citations":           `{"citations":["https://a/%d"],"choices":[{"delta":{"content":"w"}}]}`,
		"usage":               `{"choices":[],"usage":{"prompt_tokens":%d}}`,
	}
	return []dialect{
		{vendor: "openai", model: "gpt-4o", path: chatPath, frame: sse, shapes: compatible},
		{vendor: "openrouter", model: "m", path: chatPath, frame: sse, shapes: compatible},
		{vendor: "anthropic", model: "claude-sonnet-4-5", path: chatPath, frame: sse,
			before: sse(`{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}`), shapes: map[string]string{
				"texts":  `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word"}}`,
				"blocks": `{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":"w"}}`,
				"calls":  `{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"c%d","name":"f","input":{}}}`,
				"thoughts": `{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"d"}}` +
					"\n\n" + `data: {"type":"content_block_stop","index":0}`,
				"citations": `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"w"}}` +
					strings.Repeat("\n\n"+
						`data: {"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"url":"https://a/%d"}}}`, 9000) + "\n\n" + `data: {"type":"content_block_stop","index":0}`,
			}},
		{vendor: "gemini", model: "gemini-2.5-pro", path: chatPath, frame: sse, shapes: map[string]string{
			"texts":     `{"candidates":[{"content":{"parts":[{"text":"word"}]}}]}`,
			"calls":     `{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c%d","name":"f","args":{}}}]}}]}`,
			"citations": `{"candidates":[{"content":{"parts":[{"text":"w"}]},"citationMetadata":{"citations":[{"startIndex":0,"endIndex":%d,"uri":"https://a/%d"}]}}]}`,
			"grounding": `{"candidates":[{"content":{"parts":[{"text":"w"}]},"groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://a/` + long + `"}}],"groundingSupports":[` + strings.Repeat(`{"groundingChunkIndices":[0,0,0,0,0,0,0,0]},`, 100) + `{}]}}]}`,
			"a long id": `{"responseId":"` + long + `","candidates":[{"content":{"parts":[{"text":"w"}]}}]}` +
				strings.Repeat("\n\n"+`data: {"candidates":[{"content":{"parts":[{"text":"w"}]}}]}`, 200),
			"arguments": `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","partialArgs":[{"jsonPath":"$.a%d","stringValue":"w","willContinue":true}],"willContinue":true}}]}}]}`,
		}},
		{vendor: "cohere", model: "command-a", path: chatPath, frame: sse,
			before: sse(`{"type":"message-start","id":"m"}`), shapes: map[string]string{
				"texts":          `{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"word"}}}}`,
				"calls":          `{"type":"tool-call-start","index":%d,"delta":{"message":{"tool_calls":{"id":"c%d","function":{"name":"f","arguments":""}}}}}`,
				"arguments held": `{"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"c","function":{"name":"f","arguments":""}}}}}` + strings.Repeat("\n\n"+`data: {"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":"    "}}}}}`, 9000),
				"citations":      `{"type":"citation-start","index":0,"delta":{"message":{"citations":{"start":0,"end":%d,"sources":[{"id":"s"}]}}}}`,
				"blocks":         `{"type":"content-start","index":%d,"delta":{"message":{"content":{"text":"w"}}}}`,
			}},
		{vendor: "mistral", model: "m", path: chatPath, frame: sse, shapes: map[string]string{
			"texts":   `{"id":"c","choices":[{"index":0,"delta":{"content":"word"}}]}`,
			"calls":   `{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"id":"c%d","index":%d,"function":{"name":"f","arguments":"{}"}}]}}]}`,
			"choices": `{"id":"c","choices":[{"index":%d,"delta":{"content":"word"}}]}`,
			"nested": `{"id":"c","choices":[{"index":0,"delta":{"content":` + strings.Repeat(`[{"type":"text","text":`, 4000) +
				`"w"` + strings.Repeat(`}]`, 4000) + `}}]}`,
		}},
		{vendor: "bedrock", model: "amazon.nova-pro-v1:0", path: chatPath, frame: frame, shapes: map[string]string{
			"texts":     `contentBlockDelta|{"contentBlockIndex":0,"delta":{"text":"word"}}`,
			"blocks":    `contentBlockDelta|{"contentBlockIndex":%d,"delta":{"text":"word"}}`,
			"calls":     `contentBlockStart|{"contentBlockIndex":%d,"start":{"toolUse":{"toolUseId":"c%d","name":"f"}}}`,
			"others":    `contentBlockStart|{"contentBlockIndex":%d,"start":{}}`,
			"citations": `contentBlockDelta|{"contentBlockIndex":0,"delta":{"citation":{"location":{"web":{"url":"https://a/%d"}}}}}`,
		}},
		{vendor: "anthropic", model: "claude-sonnet-4-5", path: "/v1/completions", frame: sse,
			before: sse(`{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}` + "\n\n" +
				`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"w"}}`),
			shapes: map[string]string{
				"texts": `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word"}}`}},
	}
}

// documents are those of the codecs, whole: what is repeated stands between before and after.
func documents() []dialect {
	const choicesBefore, choicesAfter = `{"id":"c","choices":[`, `]}`
	messageBefore, messageAfter := `{"id":"c","choices":[{"message":{"content":"x","tool_calls":[`,
		`]},"finish_reason":"stop"}]}`
	of := func(vendor, model, before, after string, shapes map[string]string) dialect {
		return dialect{vendor: vendor, model: model, path: chatPath, before: before, after: after, shapes: shapes}
	}
	var out []dialect
	for _, d := range []dialect{{vendor: "openai", model: "gpt-4o"}, {vendor: "openrouter", model: "m"},
		{vendor: "mistral", model: "m"}} {
		out = append(out, of(d.vendor, d.model, choicesBefore, choicesAfter, map[string]string{
			"choices": `{"index":%d,"message":{"content":"w"},"finish_reason":"stop"}`, "empty choices": `{}`, "numbers": `0`}),
			of(d.vendor, d.model, messageBefore, messageAfter, map[string]string{
				"calls":           `{"id":"c%d","function":{"name":"f","arguments":"{}"}}`,
				"calls of one id": `{"id":"c","function":{"name":"f","arguments":"{}"}}`}),
			of(d.vendor, d.model, `{"choices":[`+strings.Repeat(`{"message":{"content":"w"}},`, 2000)+`{}],"citations":[`, `]}`,
				map[string]string{"citations": `"https://a/%d"`}),
			of(d.vendor, d.model, `{"choices":[{"messages":[`, `]}]}`, map[string]string{
				"messages": `{"role":"tool","tool_call_id":"c%d"},{"role":"assistant","tool_calls":[{"id":"d%d","function":{"name":"f","arguments":"{}"}}]}`}))
	}
	blocks := map[string]string{
		"texts": `{"type":"text","text":"word"}`, "thoughts": `{"type":"thinking","thinking":"t%d","signature":"s"}`,
		"calls":     `{"type":"tool_use","id":"c%d","name":"f","input":{"a":1}}`,
		"citations": `{"type":"text","text":"w","citations":[` + strings.Repeat(`{"url":"https://a/%d"},`, 9000) + `{}]}`,
		"unknown":   `{"type":"u"}`, "nothing": `{}`,
	}
	return append(out,
		of("anthropic", "claude-sonnet-4-5", `{"type":"message","id":"m","content":[`, `],"usage":{}}`, blocks),
		of("gemini", "gemini-2.5-pro", `{"candidates":[{"finishReason":"STOP","content":{"parts":[`, `]}}]}`,
			map[string]string{
				"texts": `{"text":"word"}`, "calls": `{"functionCall":{"id":"c%d","name":"f","args":{"a":1}}}`,
				"images": `{"fileData":{"fileUri":"https://a/%d"}}`, "nothing": `{}`}),
		of("gemini", "gemini-2.5-pro", `{"candidates":[`, `]}`, map[string]string{"candidates": `{}`}),
		of("gemini", "gemini-2.5-pro", `{"candidates":[{"finishReason":"STOP","content":{"parts":[{"text":"`+
			strings.Repeat("é", 100<<10)+`"}]},"citationMetadata":{"citations":[`, `]}}]}`,
			map[string]string{"citations": `{"startIndex":100000,"endIndex":150000,"uri":"https://a/%d"}`}),
		of("cohere", "command-a", `{"id":"c","message":{"content":[`, `]}}`,
			map[string]string{"texts": `{"type":"text","text":"word"}`, "nothing": `{}`}),
		of("cohere", "command-a", `{"id":"`+strings.Repeat("i", 64<<10)+`","message":{"content":[],"tool_calls":[`, `]}}`,
			map[string]string{"calls": `{"function":{"name":"f","arguments":"{}"}}`, "nothing": `{}`}),
		of("bedrock", "amazon.nova-pro-v1:0", `{"output":{"message":{"content":[`, `]}}}`, map[string]string{
			"texts": `{"text":"word"}`, "nothing": `{}`, "calls": `{"toolUse":{"toolUseId":"c%d","name":"f","input":{}}}`,
			"citations": `{"citationsContent":{"content":[{"text":"word"}],"citations":[{"location":{"web":{"url":"https://a/%d"}}}]}}`}))
}

// noise is what no codec reads, in the frames of server-sent events. It is cut into tiny pieces.
func noise() map[string]string {
	return map[string]string{"comments": ": c\n", "comments apart": ": c\n\n", "a line without end": "xxxxxxxx",
		"lines of data": "data: 1\n", "names": "event: n%d\n", "returns": "\r"}
}

// answered gives an exchange a whole answer, in pieces.
func (g *gate) answered(d *dialect, body string, piece int) {
	ask := `{"model":"any","messages":[` + user + `]`
	if d.path != chatPath {
		ask = `{"model":"any","prompt":"p"`
	}
	contentType := "application/json"
	if d.frame != nil {
		ask, contentType = ask+`,"stream":true`, "text/event-stream"
	}
	x, reply := g.ask(shape{path: d.path, contentType: "application/json"}, []byte(ask+"}"))
	if reply.Immediate != nil {
		panic(d.vendor + ": the request was refused: " + string(reply.Immediate.Body))
	}
	if d.vendor == "bedrock" && d.frame != nil {
		contentType = "application/vnd.amazon.eventstream"
	}
	x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: "200"}, {Name: "content-type", Value: contentType}},
		exchange.Facts{Cluster: "a/first", Attempts: 1, CodeDetails: envoy.CodeDetailsUpstream}, false)
	for rest := []byte(body); len(rest) > 0; {
		n := min(piece, len(rest))
		x.ResponseBody(context.Background(), slices.Clone(rest[:n]), n == len(rest))
		rest = rest[n:]
	}
	x.Close()
}

// proportional fails where four times the answer costs more than eight times as many steps.
func proportional(t *testing.T, what string, g *gate, d *dialect, piece int, body func(size int) string) {
	t.Helper()
	large, small := body(largeAnswer), body(smallAnswer)
	less, big, ok := work.Proportional(freeSteps,
		func() { g.answered(d, small, piece) }, func() { g.answered(d, large, piece) })
	if !ok {
		t.Errorf("%s: %d KB take %d steps, and %d KB %d", what, len(small)>>10, less.Steps, len(large)>>10, big.Steps)
	}
	if big.Bytes > mostMemory {
		t.Errorf("%s: %d KB make %d KB of memory", what, len(large)>>10, big.Bytes>>10)
	}
}

func TestWorkOnARequestIsInProportionToItsSize(t *testing.T) {
	shapes := slices.Concat(schemas(), conversations(), members(), otherOperations())
	slices.SortFunc(shapes, func(a, b shape) int { return strings.Compare(a.name, b.name) })
	vendors := all.Providers()
	bodies := make([]map[int][]byte, len(shapes))
	for i, s := range shapes {
		bodies[i] = map[int][]byte{smaller: []byte(s.body(smaller)), larger: []byte(s.body(larger))}
	}
	for n, vendor := range slices.Sorted(maps.Keys(vendors)) {
		for _, model := range models(vendor) {
			g := newGate(t, vendors[vendor], model)
			for i, s := range shapes {
				// vendors of OpenAI's dialect share a codec, and together do every shape several times
				if model == "some-model" && i%4 != n%4 {
					continue
				}
				status := 200
				linear(t, vendor+" "+model+": "+s.name, func(size int) {
					x, reply := g.ask(s, bodies[i][size])
					if reply.Immediate != nil {
						status = reply.Immediate.Status
					}
					x.Close()
				})
				if status >= 500 {
					t.Errorf("%s %s: %s: status %d", vendor, model, s.name, status)
				}
			}
		}
	}
}

func TestWorkOnAnAnswerIsInProportionToItsSize(t *testing.T) {
	vendors := all.Providers()
	for _, d := range slices.Concat(dialects(), documents()) {
		g := newGate(t, vendors[d.vendor], d.model)
		for name, one := range d.shapes {
			proportional(t, d.vendor+" "+d.path+": "+name, g, &d, 16<<10, func(size int) string {
				if d.frame == nil {
					return d.before + list(size, numbered(one)) + d.after
				}
				var b strings.Builder
				b.WriteString(d.before)
				for i, item := 0, numbered(one); b.Len() < size; i++ {
					b.WriteString(d.frame(item(i)))
				}
				return b.String()
			})
		}
	}
}

func TestWorkOnFramesOfAnAnswerIsInProportionToItsSize(t *testing.T) {
	vendors := all.Providers()
	for _, d := range []dialect{{vendor: "openai", model: "gpt-4o"}, {vendor: "openrouter", model: "m"},
		{vendor: "anthropic", model: "claude-sonnet-4-5"}, {vendor: "gemini", model: "gemini-2.5-pro"}} {
		d.path, d.frame = chatPath, sse
		g := newGate(t, vendors[d.vendor], d.model)
		for name, one := range noise() {
			proportional(t, d.vendor+": "+name, g, &d, 64, func(size int) string {
				return sse(`{"id":"c","choices":[{"delta":{"content":"word"}}]}`) + strings.ReplaceAll(list(size, numbered(one)),
					","+one[:1], one[:1])
			})
		}
	}
}
