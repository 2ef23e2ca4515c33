package sse

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// result is what came out of a decoder, in a form that can be compared.
type result struct {
	Events []string // name, a bar, data
	Err    error
}

// decode feeds the pieces and collects everything. Each piece is overwritten after use, as a caller's buffer would be.
func decode(limit int, pieces ...[]byte) result {
	d := Decoder{Limit: limit}
	var r result
	for _, p := range pieces {
		p = bytes.Clone(p)
		d.Feed(p)
		for i := range p {
			p[i] = '#'
		}
		for {
			e, ok, err := d.Next()
			if err != nil {
				r.Err = err
				return r
			}
			if !ok {
				break
			}
			r.Events = append(r.Events, e.Name+"|"+string(e.Data))
		}
	}
	if e, ok := d.Close(); ok {
		r.Events = append(r.Events, e.Name+"|"+string(e.Data))
	}
	return r
}

// tricky has every construct of the format, some of them next to each other.
const tricky = "\xef\xbb\xbf: a comment\n\ndata: {\"a\":1}\n\n" +
	"data:no space\r\n\r\n" +
	"data:  two spaces\r\r" +
	"event: message_start\ndata: x\n\n" +
	"event:ping\r\ndata: {\"type\": \"ping\"}\r\n\r\n" +
	"data: one\ndata: two\r\ndata:three\rdata\n: comment within\ndata: : colon\n\n" +
	"id: 7\nretry: 10\nunknown\nevent: only a name\n\n" +
	"data\n\ndata:\n\n\n\n\r\n\r" +
	"data: zażółć 日本語 😀\n\n" +
	"event: first\nevent: last\ndata: name twice\n\n" +
	"database: not data\n data: indented\n\n" +
	"data: [DONE]\n\ndata: cut off\nevent: end"

var trickyEvents = []string{
	`|{"a":1}`, "|no space", "| two spaces", "message_start|x", `ping|{"type": "ping"}`,
	"|one\ntwo\nthree\n\n: colon", "|", "|", "|zażółć 日本語 😀", "last|name twice", "|[DONE]", "end|cut off",
}

func TestDecoderReadsEveryConstruct(t *testing.T) {
	require.Empty(t, cmp.Diff(result{Events: trickyEvents}, decode(0, []byte(tricky))))
}

func TestCutsNeverChangeTheEvents(t *testing.T) { // pitfall 17
	in := []byte(tricky)
	want := decode(0, in)
	for i := range in {
		require.Empty(t, cmp.Diff(want, decode(0, in[:i], in[i:])), "cut at byte %d", i)
	}
	for i := range in {
		for j := i; j < len(in); j += 7 {
			require.Empty(t, cmp.Diff(want, decode(0, in[:i], in[i:j], in[j:])), "cut at bytes %d and %d", i, j)
		}
	}
	require.Empty(t, cmp.Diff(want, decode(0, bytes.SplitAfter(in, nil)...)), "one byte at a time")
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		require.Empty(t, cmp.Diff(want, decode(0, cuts(random, in)...)))
	}
}

func TestDecoder(t *testing.T) {
	long := strings.Repeat("x", 100)
	for name, c := range map[string]struct {
		limit int
		in    string
		want  result
	}{
		"nothing":                             {in: "", want: result{}},
		"only a byte order mark":              {in: "\xef\xbb\xbf", want: result{}},
		"half a byte order mark":              {in: "\xef\xbb", want: result{}},
		"a byte order mark later is a name":   {in: "\n\xef\xbb\xbfdata: x\n\n", want: result{}},
		"a last event without its blank line": {in: "data: x", want: result{Events: []string{"|x"}}},
		"a last event after CR LF":            {in: "data: x\r\n", want: result{Events: []string{"|x"}}},
		"a name is of one event only": {in: "event: a\ndata: 1\n\ndata: 2\n\n",
			want: result{Events: []string{"a|1", "|2"}}},
		"a name without data is no event": {in: "event: a\n\ndata: 2\n\n", want: result{Events: []string{"|2"}}},
		"comments only":                   {in: ": x\n\n:\n\n: y", want: result{}},
		"an event at the limit":           {limit: 8, in: "data: x\n\n", want: result{Events: []string{"|x"}}},
		"an event over the limit": {limit: 8, in: "data: 1\n\ndata: " + long + "\n\n",
			want: result{Events: []string{"|1"}, Err: ErrTooLarge}},
		"many lines over the limit": {limit: 50, in: strings.Repeat("data: x\n", 100),
			want: result{Err: ErrTooLarge}},
		"many events are no large event": {limit: 50, in: strings.Repeat("data: x\n\n", 100),
			want: result{Events: strings.Split(strings.Repeat(" |x", 100)[1:], " ")}},
		"many comments are no large event":  {limit: 50, in: strings.Repeat(": ping\n", 100), want: result{}},
		"a line without end over the limit": {limit: 50, in: long, want: result{Err: ErrTooLarge}},
	} {
		t.Run(name, func(t *testing.T) {
			in := []byte(c.in)
			require.Empty(t, cmp.Diff(c.want, decode(c.limit, in), cmp.Comparer(sameError)))
			require.Empty(t, cmp.Diff(c.want, decode(c.limit, bytes.SplitAfter(in, nil)...), cmp.Comparer(sameError)),
				"one byte at a time")
		})
	}
}

func TestNothingComesAfterAnEventThatIsTooLarge(t *testing.T) {
	d := Decoder{Limit: 4}
	d.Feed([]byte("data: x\n\n"))
	_, _, err := d.Next()
	require.ErrorIs(t, err, ErrTooLarge)
	d.Feed([]byte("\n\n"))
	_, _, err = d.Next()
	require.ErrorIs(t, err, ErrTooLarge)
	_, ok := d.Close()
	require.False(t, ok)
}

func TestAnEventIsOfferedAsSoonAsItsBlankLineIsThere(t *testing.T) {
	var d Decoder
	d.Feed([]byte("data: x\r\n\r")) // the LF of the last line end has not come
	e, ok, err := d.Next()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "x", string(e.Data))
}

func TestAnIdleDecoderHoldsNoLargeBuffer(t *testing.T) {
	for name, rest := range map[string]string{"drained": "", "within an event": "data: part"} {
		t.Run(name, func(t *testing.T) {
			var d Decoder
			d.Feed([]byte("data: " + strings.Repeat("x", 1<<20) + "\n\n" + rest))
			e, ok, err := d.Next()
			require.NoError(t, err)
			require.True(t, ok)
			_, ok, err = d.Next()
			require.NoError(t, err)
			require.False(t, ok)
			require.LessOrEqual(t, cap(d.buf), maxIdle)
			require.Len(t, e.Data, 1<<20, "data is valid until the next Feed")
			require.Equal(t, strings.Repeat("x", 1<<20), string(e.Data))
			d.Feed([]byte("\n\ndata: y\n\n"))
			e, ok, err = d.Next()
			require.NoError(t, err)
			require.True(t, ok)
			require.Contains(t, []string{"y", "part"}, string(e.Data))
		})
	}
}

func TestAStreamAllocatesNothingForEachEvent(t *testing.T) {
	var d Decoder
	piece := []byte("event: content_block_delta\ndata: {\"a\":1}\n\nevent: content_block_delta\ndata: {\"a\":2}\n\n")
	feed := func() {
		d.Feed(piece)
		for ok := true; ok; {
			_, ok, _ = d.Next()
		}
	}
	feed()
	require.Zero(t, testing.AllocsPerRun(100, feed))
}

func FuzzCutsNeverChangeTheEvents(f *testing.F) {
	f.Add([]byte(tricky), uint64(1), 0)
	f.Add([]byte("data: x\r\n\r\ndata: y\n"), uint64(2), 10)
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, limit int) {
		limit &= 0xff
		want := decode(limit, in)
		random := rand.New(rand.NewPCG(seed, seed))
		require.Empty(t, cmp.Diff(want, decode(limit, cuts(random, in)...), cmp.Comparer(sameError)))
		require.Empty(t, cmp.Diff(want, decode(limit, bytes.SplitAfter(in, nil)...), cmp.Comparer(sameError)))
	})
}

func BenchmarkDecoder(b *testing.B) {
	piece := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	b.ReportAllocs()
	b.SetBytes(int64(len(piece)))
	var d Decoder
	for b.Loop() {
		d.Feed(piece)
		for ok := true; ok; {
			_, ok, _ = d.Next()
		}
	}
}

// cuts divides in at random places.
func cuts(random *rand.Rand, in []byte) [][]byte {
	var pieces [][]byte
	for len(in) > 0 {
		n := 1 + random.IntN(min(len(in), 40))
		pieces = append(pieces, in[:n])
		in = in[n:]
	}
	return pieces
}

func sameError(a, b error) bool { return errors.Is(a, b) }

func TestAnErrorInAFieldOfItsOwn(t *testing.T) {
	require.Equal(t, []string{"|a", `error|{"code":500}`},
		decode(0, []byte("data: a\n\nerror: {\"code\":500}\n\n")).Events)
}

func TestPendingCountsWhatIsOfNoEventYet(t *testing.T) {
	var d Decoder
	for _, step := range []struct {
		piece   string
		pending int
	}{{": comment\n\nda", 2}, {"ta: a\n", len("data: a\n")}, {"\n", 0}, {"data: b\n\ndata", len("data")}} {
		d.Feed([]byte(step.piece))
		for ok := true; ok; {
			_, ok, _ = d.Next()
		}
		require.Equal(t, step.pending, d.Pending(), step.piece)
	}
}

func TestDataOfWholeEvents(t *testing.T) {
	var got []string
	for data := range Data([]byte(": comment\nevent: x\ndata: a\ndata:b\r\n\r\ndata: c\rdata:\n\ndata: last")) {
		got = append(got, string(data))
	}
	require.Equal(t, []string{" a", "b", " c", "", " last"}, got)
	for range Data(nil) {
		t.Fatal("there is none")
	}
}
