package openaicompat

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// play streams the pieces of a body, and returns what was written and the error. A stream without error must have its end
// mark, which is not returned, and one with an error must not.
func play(d Dialect, choices int, includeUsage bool, pieces ...[]byte) (string, error) {
	w := openai.NewStreamWriter("client/m", 1, includeUsage)
	s := (&answer{dialect: &d, choices: choices}).Stream()
	var out []byte
	for _, p := range pieces {
		p = bytes.Clone(p)
		err := s.Decode(p, w)
		for i := range p {
			p[i] = '#'
		}
		if out = append(out, w.Take()...); err != nil {
			return string(out), err
		}
	}
	var err error
	if !w.IsDone() {
		err = s.Close(w)
	}
	written, marked := strings.CutSuffix(string(append(out, w.Take()...)), done)
	if marked != (err == nil) {
		return written, fmt.Errorf("end mark %v, though the error is %w", marked, err)
	}
	return written, err
}

// chunkOf returns an event whose chunk has one choice.
func chunkOf(choice string) string {
	return `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"client/m","choices":[` + choice + "]}\n\n"
}

const (
	first = `{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}`
	next  = `{"index":0,"delta":{"content":"b"},"finish_reason":null}`
	final = `{"index":0,"delta":{},"finish_reason":"stop"}`
	done  = "data: [DONE]\n\n"
)

func TestStreamOfOneChoice(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"a good stream passes":                       {chunkOf(first) + chunkOf(next) + chunkOf(final), chunkOf(first) + chunkOf(next) + chunkOf(final)},
		"a role that is repeated is taken out":       {chunkOf(first) + chunkOf(`{"index":0,"delta":{"role":"assistant","content":"b"},"finish_reason":null}`), chunkOf(first) + chunkOf(next)},
		"also at the end of the delta":               {chunkOf(first) + chunkOf(`{"index":0,"delta":{"content":"b", "role":"assistant"},"finish_reason":null}`), chunkOf(first) + chunkOf(next)},
		"also alone in the delta":                    {chunkOf(first) + chunkOf(`{"index":0,"delta":{ "role":null },"finish_reason":null}`), chunkOf(first) + chunkOf(`{"index":0,"delta":{ },"finish_reason":null}`)},
		"text that looks like a role stays":          {chunkOf(first) + chunkOf(`{"index":0,"delta":{"content":"role"},"finish_reason":null}`), chunkOf(first) + chunkOf(`{"index":0,"delta":{"content":"role"},"finish_reason":null}`)},
		"a role that is missing is put in":           {chunkOf(`{"index":0,"delta":{"content":"a"},"finish_reason":null}`), chunkOf(first)},
		"also into an empty delta":                   {chunkOf(`{"index":0,"delta":{},"finish_reason":null}`), chunkOf(`{"index":0,"delta":{"role":"assistant"},"finish_reason":null}`)},
		"a role of the vendor's own":                 {chunkOf(`{"index":0,"delta":{"role":"model","content":"a"},"finish_reason":null}`), chunkOf(first)},
		"an empty finish reason is null":             {chunkOf(`{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":""}`), chunkOf(first)},
		"what comes after the finish reason":         {chunkOf(first) + chunkOf(final) + chunkOf(next) + chunkOf(final), chunkOf(first) + chunkOf(final)},
		"an unknown finish reason is stop":           {chunkOf(first) + chunkOf(`{"index":0,"delta":{},"finish_reason":"eos_token"}`), chunkOf(first) + chunkOf(final)},
		"a finish reason that the dialect maps":      {chunkOf(first) + chunkOf(`{"index":0,"delta":{},"finish_reason":"end"}`), chunkOf(first) + chunkOf(`{"index":0,"delta":{},"finish_reason":"length"}`)},
		"a chunk without choices":                    {chunkOf("") + chunkOf(first) + strings.ReplaceAll(chunkOf(""), "[]", "null") + "data: {}\n\n", chunkOf(first)},
		"an error of null is none":                   {strings.Replace(chunkOf(first), `"id"`, `"error":null,"id"`, 1), strings.Replace(chunkOf(first), `"id"`, `"error":null,"id"`, 1)},
		"usage of null is taken out, if it is last":  {strings.Replace(chunkOf(first), "}\n", `, "usage" : null }`+"\n", 1), strings.Replace(chunkOf(first), "}\n", " }\n", 1)},
		"usage of null is taken out, if it is first": {strings.Replace(chunkOf(first), `{"id"`, `{ "usage":null , "id"`, 1), strings.Replace(chunkOf(first), `{"id"`, `{ "id"`, 1)},
		"an id that is missing later is put in":      {chunkOf(first) + `data: {"choices":[` + next + "]}\n\n", chunkOf(first) + `data: {"choices":[` + next + `],"model":"client/m","object":"chat.completion.chunk","id":"c","created":1}` + "\n\n"},
		"JSON over several data lines":               {"data: " + `{"id":"c","object":"chat.completion.chunk","created":1,` + "\ndata: " + `"model":"client/m","choices":[` + first + "]}\n\n", strings.Replace(chunkOf(first), `"model"`, ` "model"`, 1)},
		"an index that no request can have":          {chunkOf(first) + chunkOf(`{"index":100000000,"delta":{"role":"assistant"}}`) + chunkOf(`{"index":-1,"delta":{"role":"assistant"}}`), chunkOf(first)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := play(Dialect{FinishReasons: map[string]string{"end": "length"}}, 1, false, []byte(c.in+done))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestAChunkIsWrittenAsSoonAsItIsThere(t *testing.T) { // pitfall 21
	w := openai.NewStreamWriter("client/m", 1, true)
	s := (&answer{dialect: &Dialect{}, choices: 1}).Stream()
	for _, event := range []string{chunkOf(first), chunkOf(next), chunkOf(final)} {
		require.NoError(t, s.Decode([]byte(event), w))
		require.Equal(t, 1, strings.Count(string(w.Take()), "data: "))
	}
	require.NoError(t, s.Decode([]byte(strings.Replace(chunkOf(""), "}\n", `,"usage":{"prompt_tokens":1}}`+"\n", 1)), w))
	require.Empty(t, w.Take(), "the usage may still change")
	require.NoError(t, s.Decode([]byte(done), w))
	require.Equal(t, 1, strings.Count(string(w.Take()), `"usage":{"prompt_tokens":1}`), "not only once the connection ends")
}

func TestStreamOfSeveralChoices(t *testing.T) { // pitfalls 3, 10
	both := `{"index":1,"delta":{"role":"assistant","content":"x"},"finish_reason":null},{"index":0,"delta":{"role":"assistant","content":"y"},"finish_reason":null}`
	got, err := play(Dialect{}, 2, false, []byte(chunkOf(first)+chunkOf(both)+chunkOf(final)+chunkOf(`{"index":1,"delta":{},"finish_reason":"stop"}`)+done))
	require.NoError(t, err)
	require.Equal(t, chunkOf(first)+chunkOf(strings.Replace(both, `"role":"assistant","content":"y"`, `"content":"y"`, 1))+chunkOf(final)+chunkOf(`{"index":1,"delta":{},"finish_reason":"stop"}`), got)
}

func TestStreamThatEnds(t *testing.T) { // pitfalls 22, 23
	for name, c := range map[string]struct {
		dialect Dialect
		choices int
		in      string
		err     error
	}{
		"with [DONE]":                              {in: chunkOf(first) + done},
		"with [DONE] and no blank line":            {in: chunkOf(first) + "data:[DONE]"},
		"with what comes after [DONE]":             {in: chunkOf(first) + done + "data: {\"error\":\"late\"}\n\n"},
		"without [DONE]":                           {in: chunkOf(first) + chunkOf(final), err: provider.ErrTruncated},
		"within an event":                          {in: chunkOf(first) + chunkOf(next)[:50], err: provider.ErrTruncated},
		"without any event":                        {in: "", err: provider.ErrTruncated},
		"without any chunk":                        {in: done, err: provider.ErrTruncated},
		"as JSON":                                  {in: `{"id":"c","choices":[]}`, err: provider.ErrTruncated},
		"with a finish reason, where that is all":  {dialect: Dialect{NoDone: true}, in: chunkOf(first) + chunkOf(final)},
		"without one, where that is all":           {dialect: Dialect{NoDone: true}, in: chunkOf(first), err: provider.ErrTruncated},
		"with one of two, where that is all":       {dialect: Dialect{NoDone: true}, choices: 2, in: chunkOf(first) + chunkOf(final), err: provider.ErrTruncated},
		"with an event that is not JSON":           {in: chunkOf(first) + "data: {x\n\n", err: provider.ErrNotAnAnswer},
		"with an event that is not an object":      {in: chunkOf(first) + "data: 7\n\n", err: provider.ErrNotAnAnswer},
		"with an event that is larger than enough": {in: "data: " + strings.Repeat("x", 33<<20), err: provider.ErrNotAnAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := play(c.dialect, max(1, c.choices), false, []byte(c.in))
			if c.err == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, c.err)
			}
		})
	}
}

func TestUsageIsShownOnceAndOnlyWhereAskedFor(t *testing.T) { // pitfalls 34, 36, 37, 43
	usage := func(n int) string {
		return fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":1,"total_tokens":%d,"cost":0.5}`, n, n+1)
	}
	with := func(event, usage string) string { return strings.Replace(event, "}\n", ","+usage+"}\n", 1) }
	for name, in := range map[string]string{
		"in a chunk of its own":              chunkOf(first) + chunkOf(final) + with(chunkOf(""), usage(7)),
		"in the last chunk":                  chunkOf(first) + with(chunkOf(final), usage(7)),
		"in every chunk, counting up":        with(chunkOf(first), usage(1)) + with(chunkOf(final), usage(7)),
		"twice":                              chunkOf(first) + with(chunkOf(final), usage(7)) + with(chunkOf(""), usage(7)),
		"in a chunk after the finish reason": chunkOf(first) + chunkOf(final) + with(chunkOf(next), usage(7)),
		"before the first choice":            with(strings.Replace(chunkOf(""), `"c"`, `""`, 1), usage(7)) + chunkOf(first) + chunkOf(final),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := play(Dialect{}, 1, true, []byte(in+done))
			require.NoError(t, err)
			null := `"usage":null`
			require.Equal(t, with(chunkOf(first), null)+with(chunkOf(final), null)+with(chunkOf(""), usage(7)), got)
			got, err = play(Dialect{}, 1, false, []byte(in+done))
			require.NoError(t, err)
			require.Equal(t, chunkOf(first)+chunkOf(final), got)
		})
	}
}

func TestReadUsage(t *testing.T) { // pitfalls 40, 41, 42
	require.Equal(t, openai.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3, CachedTokens: 4, CacheWriteTokens: 5, PromptAudio: 6, ReasoningTokens: 7, CompletionAudio: 8},
		readUsage([]byte(`{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":5,"audio_tokens":6},"completion_tokens_details":{"reasoning_tokens":7,"audio_tokens":8}}`)))
	require.Equal(t, openai.Usage{PromptTokens: 1}, readUsage([]byte(`{"prompt_tokens":1,"completion_tokens":null,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":null}}`)))
}

func TestAStreamIsSmall(t *testing.T) {
	const streams = 1000
	w := openai.NewStreamWriter("client/m", 1, false)
	piece := []byte(chunkOf(first) + chunkOf(next))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range streams {
		s := (&answer{dialect: &Dialect{}, choices: 1}).Stream()
		require.NoError(t, s.Decode(piece, w))
		w.Take()
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/streams, uint64(3<<10), "bytes for a stream and two of its chunks")
}

func TestAChunkAllocatesNothing(t *testing.T) {
	for _, includeUsage := range []bool{false, true} {
		w := openai.NewStreamWriter("client/m", 1, includeUsage)
		s := (&answer{dialect: &Dialect{}, choices: 1}).Stream()
		require.NoError(t, s.Decode([]byte(recordedChunk(`{"role":"assistant","content":""}`)), w))
		piece := []byte(recordedChunk(`{"content":" word"}`))
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_ = s.Decode(piece, w)
			w.Take()
		}))
	}
}

// FuzzStream checks that cuts never change what is written, and that what is written is JSON, whatever a vendor sends.
func FuzzStream(f *testing.F) {
	for _, name := range []string{"stream-usage-within-a-chunk", "stream-finish-repeated", "stream-framing", "stream-error-later"} {
		archive, err := txtar.ParseFile("../openai/testdata/" + name + ".txtar")
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		require.NoError(f, err)
		for _, section := range archive.Files {
			if section.Name == "provider-response" {
				f.Add(section.Data, uint64(1))
			}
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		want, wantErr := play(Dialect{}, 1, seed%2 == 0, body)
		random := rand.New(rand.NewPCG(seed, seed))
		var pieces [][]byte
		for rest := body; len(rest) > 0; {
			n := 1 + random.IntN(min(len(rest), 40))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		got, gotErr := play(Dialect{}, 1, seed%2 == 0, pieces...)
		made := regexp.MustCompile(`chatcmpl-[A-Z2-7]{26}`) // ids that the vendor did not give differ from time to time
		require.Equal(t, made.ReplaceAllString(want, "made"), made.ReplaceAllString(got, "made"))
		require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(gotErr))
		for event := range strings.SplitSeq(strings.TrimSuffix(got, "\n\n"), "\n\n") {
			if got != "" {
				require.True(t, gjson.Valid(strings.TrimPrefix(event, "data: ")), "%q", event)
			}
		}
	})
}
