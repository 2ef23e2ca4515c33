package providertest

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/chat"
	inbound "github.com/modelgate/modelgate/internal/inbound/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/translate"
)

// Bench measures a vendor's codecs: requests of 2 KB and of 1 MB, including the gateway's own check, and the longest
// whole and the longest streamed answer in testdata/*.txtar. The streamed one is also reported for one chunk.
func Bench(b *testing.B, p provider.Provider) {
	whole, streamed := longest(b, p)
	require.False(b, whole == nil && streamed == nil, "no case in testdata has an answer")
	target := whole
	if target == nil {
		target = streamed
	}
	for name, size := range map[string]int{"Encode/2KB": 2 << 10, "Encode/1MB": 1 << 20} {
		b.Run(name, func(b *testing.B) { benchEncode(b, p, target.c.target, size) })
	}
	if whole != nil {
		b.Run("Decode", func(b *testing.B) {
			b.SetBytes(int64(len(whole.c.response.body)))
			b.ReportAllocs()
			for b.Loop() {
				p := pipelineOf(whole.answer, chat.Asked{Model: replayed, Created: created}, inbound.NewChatDocument)
				_, err := p.Whole(context.Background(), whole.c.response.body)
				require.NoError(b, err)
			}
		})
	}
	if streamed != nil {
		b.Run("Stream", func(b *testing.B) { benchStream(b, streamed) })
	}
}

// A benchCase is a case that succeeds, and the reader of its answer.
type benchCase struct {
	c       *testCase
	request *translate.Request
	answer  provider.Answer
	chunks  int // of a stream
}

// longest returns the chat completions in testdata with the longest answers: the longest whole answer and the
// longest stream. Either may be nil.
func longest(b *testing.B, p provider.Provider) (whole, streamed *benchCase) {
	b.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	require.NoError(b, err)
	for _, path := range paths {
		c := readCase(b, p.Name, path)
		r, err := translate.Parse(p, c.endpoint, c.request)
		require.NoError(b, err)
		_, answer, err := r.Encode(c.target)
		if err != nil || c.endpoint != translate.Chat || c.response == nil || c.response.status != 200 {
			continue
		}
		found := &benchCase{c: c, request: r, answer: answer}
		if !r.Stream {
			if o := playUnary(answer, r, c.response.body); o.Err == "" &&
				(whole == nil || len(c.response.body) > len(whole.c.response.body)) {
				whole = found
			}
			continue
		}
		o := playStream(answer, r, [][]byte{c.response.body})
		if found.chunks = strings.Count(o.Body, "\n\n"); o.Err == "" && (streamed == nil || found.chunks > streamed.chunks) {
			streamed = found
		}
	}
	return whole, streamed
}

// benchEncode measures a conversation with a tool, of about size bytes.
func benchEncode(b *testing.B, p provider.Provider, t provider.Target, size int) {
	const head = `{"model":"public/name","max_tokens":512,"tools":[{"type":"function","function":{"name":"weather","description":"The weather at a place.","parameters":{"type":"object","properties":{"city":{"type":"string"},"unit":{"type":"string","enum":["c","f"]}},"required":["city"]}}}],` +
		`"messages":[{"role":"system","content":"You answer briefly."}`
	const turn = `,{"role":"user","content":"What is the weather in Paris today?\nAnd what was it \"yesterday\"?"},{"role":"assistant","content":"It is sunny, with 21 degrees, and it was the same yesterday."}`
	const last = `,{"role":"user","content":"Thank you."}]}`
	body := []byte(head + strings.Repeat(turn, max(1, (size-len(head)-len(last))/len(turn))) + last)
	config := proto.CloneOf(t.Config)
	config.UnsupportedParameters = configv1.UnsupportedParameters_DROP // not every vendor has tools
	t.Config = config
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := translate.Parse(p, translate.Chat, body)
		require.NoError(b, err)
		_, _, err = r.Encode(t)
		require.NoError(b, err)
	}
}

// benchStream measures a stream that comes an event at a time, as far as its blank lines tell.
func benchStream(b *testing.B, s *benchCase) {
	pieces := bytes.SplitAfter(s.c.response.body, []byte("\n\n"))
	b.SetBytes(int64(len(s.c.response.body)))
	b.ReportAllocs()
	for b.Loop() {
		p := pipelineOf(s.answer, chat.Asked{Model: s.request.Model, Created: created, IncludeUsage: true},
			func(a chat.Asked) chat.Writer { return inbound.NewChatStream(a) })
		for _, piece := range pieces {
			_, err := p.Piece(context.Background(), piece, false)
			require.NoError(b, err)
		}
		_, err := p.Piece(context.Background(), nil, true)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.chunks), "ns/chunk")
}
