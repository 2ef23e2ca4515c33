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

	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
)

// play streams the pieces of a body, and returns what was written and the error. A stream without error must have its
// end mark, which is not returned, and one with an error must not.
func play(d Dialect, choices int, includeUsage bool, pieces ...[]byte) (string, error) {
	w := chattest.NewStream("client/m", 1, includeUsage)
	s := (&answer{dialect: &d, shape: &chatShape, choices: choices, asReceived: d.AsReceived, renamed: true,
		forced: !includeUsage}).Stream(w.Asked)
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
	return `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"client/m","choices":[` + choice +
		"]}\n\n"
}

const (
	first = `{"index":0,"delta":{"role":"assistant","content":"a"},"logprobs":null,"finish_reason":null}`
	next  = `{"index":0,"delta":{"content":"b"},"logprobs":null,"finish_reason":null}`
	final = `{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}`
	done  = "data: [DONE]\n\n"
)

func TestStreamOfOneChoice(t *testing.T) {
	length := strings.Replace(final, "stop", "length", 1)
	for name, c := range map[string]struct{ in, want string }{ // want without the chunk that says stop
		"a good stream passes": {chunkOf(first) + chunkOf(next) + chunkOf(final), chunkOf(first) +
			chunkOf(next)},
		"no finish reason is stop": {chunkOf(first) + chunkOf(next), chunkOf(first) + chunkOf(next)},
		"a role that is repeated is taken out": {chunkOf(first) +
			chunkOf(`{"index":0,"delta":{"role":"assistant","content":"b"},"finish_reason":null}`), chunkOf(first) +
			chunkOf(next)},
		"also at the end of the delta": {chunkOf(first) +
			chunkOf(`{"index":0,"delta":{"content":"b", "role":"assistant"},"finish_reason":null}`), chunkOf(first) +
			chunkOf(next)},
		"also alone in the delta": {chunkOf(first) +
			chunkOf(`{"index":0,"delta":{ "role":null },"finish_reason":null}`), chunkOf(first) +
			chunkOf(strings.Replace(final, `"stop"`, "null", 1))},
		"text that looks like a role stays": {chunkOf(first) +
			chunkOf(`{"index":0,"delta":{"content":"\"role\":"},"finish_reason":null}`), chunkOf(first) +
			chunkOf(strings.Replace(next, `"b"`, `"\"role\":"`, 1))},
		"a role that is missing is put in": {chunkOf(`{"index":0,"delta":{"content":"a"},"finish_reason":null}`),
			chunkOf(first)},
		"also into an empty delta": {chunkOf(`{"index":0,"delta":{},"finish_reason":null}`),
			chunkOf(strings.Replace(first, `,"content":"a"`, "", 1))},
		"a role of the vendor's own": {chunkOf(
			`{"index":0,"delta":{"role":"model","content":"a"},"finish_reason":null}`), chunkOf(first)},
		"an empty finish reason is null": {chunkOf(
			`{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":""}`), chunkOf(first)},
		"a finish reason and index that are absent": {chunkOf(`{"delta":{"content":"a"}}`), chunkOf(first)},
		"what comes after the finish reason": {chunkOf(first) + chunkOf(final) + chunkOf(next) + chunkOf(final),
			chunkOf(first) + chunkOf(next)},
		"a finish reason in every chunk": {chunkOf(strings.Replace(first, "null}", `"stop"}`, 1)) +
			chunkOf(strings.Replace(next, "null}", `"stop"}`, 1)), chunkOf(first) + chunkOf(next)},
		"the last finish reason counts": {chunkOf(first) + chunkOf(final) + chunkOf(length), chunkOf(first) +
			chunkOf(length)},
		"an unknown finish reason is stop": {chunkOf(first) +
			chunkOf(`{"index":0,"delta":{},"finish_reason":"eos_token"}`), chunkOf(first)},
		"a finish reason that the dialect maps": {chunkOf(first) +
			chunkOf(`{"index":0,"delta":{},"finish_reason":"end"}`), chunkOf(first) + chunkOf(length)},
		"a finish reason that many vendors have": {chunkOf(first) +
			chunkOf(`{"index":0,"delta":{},"finish_reason":"MAX_TOKENS"}`), chunkOf(first) + chunkOf(length)},
		"calls that there are none of": {chunkOf(first) +
			chunkOf(`{"index":0,"delta":{"tool_calls":null,"function_call":null},"finish_reason":"tool_calls"}`),
			chunkOf(first)},
		"a chunk without choices": {chunkOf("") + chunkOf(first) +
			strings.ReplaceAll(chunkOf(""), "[]", "null") + "data: {}\n\n", chunkOf(first)},
		"an error of null is none": {strings.Replace(chunkOf(first), `"id"`, `"error":null,"id"`, 1),
			chunkOf(first)},
		"an id that is missing later is put in": {chunkOf(first) + `data: {"choices":[` + next + "]}\n\n",
			chunkOf(first) + chunkOf(next)},
		"JSON over several data lines": {"data: " + `{"id":"c","object":"chat.completion.chunk","created":1,` +
			"\ndata: " + `"model":"client/m","choices":[` + first + "]}\n\n", chunkOf(first)},
		"an index that no request can have": {chunkOf(first) +
			chunkOf(`{"index":100000000,"delta":{"role":"assistant"}}`) + chunkOf(`{"index":-1,"delta":{"role":"assistant"}}`),
			chunkOf(first)},
		"members that nobody has heard of stay": {
			`data: {"choices":[{"seed":12479678939117453000,"index":0,"delta":{"content":"a","x":[1.50e1]}}],"id":"c","created":1,"y":"\u00e9"}` + "\n\n",
			`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"client/m","choices":[{"index":0,"delta":{"role":"assistant","content":"a","x":[1.50e1]},"logprobs":null,"finish_reason":null,"seed":12479678939117453000}],"y":"\u00e9"}` + "\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := play(Dialect{FinishReasons: map[string]string{"end": "length"}}, 1, false, []byte(c.in+done))
			require.NoError(t, err)
			if !strings.HasSuffix(c.want, chunkOf(length)) {
				c.want += chunkOf(final)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestAChunkIsWrittenAsSoonAsItIsThere(t *testing.T) { // pitfall 21
	w := chattest.NewStream("client/m", 1, true)
	s := (&answer{dialect: &Dialect{}, shape: &chatShape, choices: 1}).Stream(w.Asked)
	for _, event := range []string{chunkOf(first), chunkOf(next)} {
		require.NoError(t, s.Decode([]byte(event), w))
		require.Equal(t, 1, strings.Count(string(w.Take()), "data: "))
	}
	require.NoError(t, s.Decode([]byte(chunkOf(final)), w))
	require.Empty(t, w.Take(), "more text may follow")
	require.NoError(t, s.Decode([]byte(strings.Replace(chunkOf(""), "}\n", `,"usage":{"prompt_tokens":1}}`+"\n", 1)), w))
	require.Empty(t, w.Take(), "the usage may still change")
	require.NoError(t, s.Decode([]byte(done), w))
	require.Equal(t, 1, strings.Count(string(w.Take()), `"usage":{"prompt_tokens":1,`),
		"not only once the connection ends")
}

func TestStreamOfSeveralChoices(t *testing.T) { // pitfalls 3, 10
	x, y := strings.NewReplacer(`:0`, `:1`, `"a"`, `"x"`).Replace(first), strings.Replace(first, `"a"`, `"y"`, 1)
	final1 := strings.Replace(final, `:0`, `:1`, 1)
	got, err := play(Dialect{}, 2, false, []byte(chunkOf(first)+chunkOf(x+","+y)+chunkOf(final)+chunkOf(final1)+done))
	require.NoError(t, err)
	require.Equal(t, chunkOf(first)+chunkOf(x)+chunkOf(strings.Replace(next, `"b"`, `"y"`,
		1))+chunkOf(final)+chunkOf(final1), got)
}

func TestStreamThatEnds(t *testing.T) { // pitfalls 22, 23
	for name, c := range map[string]struct {
		dialect Dialect
		choices int
		in      string
		err     error
	}{
		"with [DONE]":                             {in: chunkOf(first) + done},
		"with [DONE] and no blank line":           {in: chunkOf(first) + "data:[DONE]"},
		"with what comes after [DONE]":            {in: chunkOf(first) + done + "data: {\"error\":\"late\"}\n\n"},
		"without [DONE]":                          {in: chunkOf(first) + chunkOf(final), err: provider.ErrTruncated},
		"within an event":                         {in: chunkOf(first) + chunkOf(next)[:50], err: provider.ErrTruncated},
		"without any event":                       {in: "", err: provider.ErrTruncated},
		"without any chunk":                       {in: done, err: provider.ErrTruncated},
		"as JSON":                                 {in: `{"id":"c","choices":[]}`, err: provider.ErrTruncated},
		"with a finish reason, where that is all": {dialect: Dialect{NoDone: true}, in: chunkOf(first) + chunkOf(final)},
		"without one, where that is all": {dialect: Dialect{NoDone: true}, in: chunkOf(first),
			err: provider.ErrTruncated},
		"with one of two, where that is all": {dialect: Dialect{NoDone: true}, choices: 2, in: chunkOf(first) +
			chunkOf(final), err: provider.ErrTruncated},
		"with an event that is not JSON":      {in: chunkOf(first) + "data: {x\n\n", err: provider.ErrNotAnAnswer},
		"with an event that is not an object": {in: chunkOf(first) + "data: 7\n\n", err: provider.ErrNotAnAnswer},
		"with an event that is larger than enough": {in: "data: " + strings.Repeat("x", 33<<20),
			err: provider.ErrNotAnAnswer},
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
	details := `"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0},"cost"`
	for name, in := range map[string]string{
		"in a chunk of its own":              chunkOf(first) + chunkOf(final) + with(chunkOf(""), usage(7)),
		"in the last chunk":                  chunkOf(first) + with(chunkOf(final), usage(7)),
		"in every chunk, counting up":        with(chunkOf(first), usage(1)) + with(chunkOf(final), usage(7)),
		"twice":                              chunkOf(first) + with(chunkOf(final), usage(7)) + with(chunkOf(""), usage(7)),
		"in a chunk after the finish reason": chunkOf(first) + chunkOf(final) + with(chunkOf(final), usage(7)),
		"where Groq has it":                  chunkOf(first) + with(chunkOf(final), `"x_groq":{`+usage(7)+`}`),
		"and less of it later": chunkOf(first) + with(chunkOf(final), usage(7)) +
			with(chunkOf(""), `"usage":{}`),
		"before the first choice": with(strings.Replace(chunkOf(""), `"c"`, `""`, 1), usage(7)) + chunkOf(first) +
			chunkOf(final),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := play(Dialect{}, 1, true, []byte(in+done))
			require.NoError(t, err)
			null := `"usage":null`
			require.Equal(t, with(chunkOf(first), null)+with(chunkOf(final), null)+with(chunkOf(""),
				strings.Replace(usage(7), `"cost"`, details, 1)), got)
			got, err = play(Dialect{}, 1, false, []byte(in+done))
			require.NoError(t, err)
			require.Equal(t, chunkOf(first)+chunkOf(final), got)
		})
	}
}

func TestAStreamIsSmall(t *testing.T) {
	const streams = 1000
	w := chattest.NewStream("client/m", 1, false)
	piece := []byte(chunkOf(first) + chunkOf(next))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range streams {
		s := (&answer{dialect: &Dialect{}, shape: &chatShape, choices: 1}).Stream(w.Asked)
		require.NoError(t, s.Decode(piece, w))
		w.Take()
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/streams, uint64(3<<10),
		"bytes for a stream and two of its chunks")
}

func TestMemoryOfAChunkInProportion(t *testing.T) {
	for _, includeUsage := range []bool{false, true} {
		w := chattest.NewStream("client/m", 1, includeUsage)
		s := (&answer{dialect: &Dialect{}, shape: &chatShape, choices: 1}).Stream(w.Asked)
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
	for _, name := range []string{"stream-usage-within-a-chunk", "stream-finish-repeated", "stream-framing",
		"stream-error-later"} {
		archive, err := txtar.ParseFile("testdata/" + name + ".txtar")
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
		d := Dialect{AsReceived: seed%3 == 0, NoDone: seed%5 == 0}
		want, wantErr := play(d, 1, seed%2 == 0, body)
		random := rand.New(rand.NewPCG(seed, seed))
		var pieces [][]byte
		for rest := body; len(rest) > 0; {
			n := 1 + random.IntN(min(len(rest), 40))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		got, gotErr := play(d, 1, seed%2 == 0, pieces...)
		// ids that the vendor did not give differ from time to time
		made := regexp.MustCompile(`(chatcmpl-|call_)[A-Z2-7]{26}`)
		require.Equal(t, made.ReplaceAllString(want, "made"), made.ReplaceAllString(got, "made"))
		require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(gotErr))
		for _, event := range events(got) {
			require.True(t, gjson.Valid(event), "%q", event)
		}
	})
}

// events returns the data of a stream's events.
func events(stream string) (data []string) {
	for event := range strings.SplitSeq(stream, "\n\n") {
		if event != "" {
			data = append(data, strings.TrimPrefix(event, "data: "))
		}
	}
	return data
}
