package providertest

import (
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/testenv/work"
	"github.com/modelgate/modelgate/internal/translate"
)

// Fuzz feeds possible answers of a vendor to everything that reads answers: Decode, Stream with cuts that follow
// from the data, and DecodeError. The seeds are the answers in testdata/*.txtar. Nothing may panic. Results must be
// well-formed. The cuts of a stream must not matter. No error may show a credential. Time and memory are in
// proportion to the answer.
func Fuzz(f *testing.F, p provider.Provider) {
	readers := fuzzReaders(f, p)
	f.Fuzz(func(t *testing.T, reader uint8, status uint16, body []byte) {
		r := readers[int(reader)%len(readers)]
		work.Require(t, len(body), maxPerByte, func() { fuzzError(t, p, 400+int(status)%200, body) })
		if r.request.Stream {
			work.Require(t, len(body), maxPerByte, func() { playStream(r.answer, r.request, [][]byte{body}) })
			fuzzStream(t, r, body)
			return
		}
		var o outcome
		work.Require(t, len(body), maxPerByte, func() { o = playUnary(r.answer, r.request, body) })
		requireNoCredential(t, body, o)
		if o.Err == "" && !r.isFree() {
			requireWellFormed(t, r, o.Body, r.object())
		}
	})
}

// isFree reports whether the form of an answer is the vendor's own.
func (r fuzzReader) isFree() bool {
	return r.bytes || r.untouched || r.request.Endpoint == translate.Messages
}

// maxPerByte is how many bytes of memory an answer may make for each of its own.
const maxPerByte = 400

// A fuzzReader reads the answers to one request.
type fuzzReader struct {
	envelope
	answer provider.Answer
}

// fuzzReaders returns the readers of the answers to the requests in testdata, and adds those answers as seeds.
func fuzzReaders(f *testing.F, p provider.Provider) []fuzzReader {
	f.Helper()
	var readers []fuzzReader
	paths, err := filepath.Glob("testdata/*.txtar")
	require.NoError(f, err)
	for _, path := range paths {
		c := readCase(f, p.Name, path)
		r, err := translate.Parse(p, c.endpoint, c.request)
		require.NoError(f, err)
		_, answer, err := r.Encode(c.target)
		if err != nil || c.response == nil || len(readers) > 255 {
			continue
		}
		f.Add(uint8(len(readers)), uint16(max(0, c.response.status-400)), c.response.body)
		readers = append(readers, fuzzReader{newEnvelope(p, r, c.target), answer})
	}
	require.NotEmpty(f, readers, "no case in testdata has a provider-response")
	return readers
}

func fuzzError(t *testing.T, p provider.Provider, status int, body []byte) {
	t.Helper()
	e := p.DecodeError(status, http.Header{"Retry-After": {"1"}}, body)
	requireError(t, e)
	if status == http.StatusUnauthorized {
		require.NotContains(t, e.Error(), Credential)
	}
}

func fuzzStream(t *testing.T, r fuzzReader, body []byte) {
	t.Helper()
	whole := playStream(r.answer, r.request, [][]byte{body})
	requireNoCredential(t, body, whole)
	seed := uint64(len(body))
	for _, b := range body {
		seed = seed*31 + uint64(b)
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for _, longest := range []int{1, 8, 200} {
		o := playStream(r.answer, r.request, cutAtRandom(random, body, longest))
		if !same(whole, o, body) {
			require.Equal(t, whole, o, "the outcome depends on where the body was cut")
		}
	}
	if whole.Status != http.StatusOK || r.isFree() {
		return
	}
	events := readEvents(t, whole.Body)
	require.Equal(t, whole.Err == "", slices.Contains(events, "[DONE]"))
	for i, e := range events {
		if last := i == len(events)-1; last && (whole.Err == "" || whole.Client != nil) {
			if whole.Err != "" {
				requireErrorBody(t, gjson.Parse(e))
			}
			break
		}
		object := r.object()
		if r.request.Endpoint == translate.Chat {
			object += ".chunk"
		}
		requireWellFormed(t, r, e, object)
	}
}

// requireWellFormed checks what holds of any answer, whatever a vendor sent.
func requireWellFormed(t *testing.T, r fuzzReader, text, object string) {
	t.Helper()
	require.True(t, gjson.Valid(text), "not JSON: %q", text)
	root := gjson.Parse(text)
	require.Equal(t, object, root.Get("object").String(), text)
	if !r.untouched {
		require.Equal(t, r.request.Model, root.Get("model").String(), text)
	}
	if r.request.Endpoint != translate.Embeddings && r.request.Endpoint != translate.Rerank {
		require.True(t, root.Get("choices").IsArray(), text)
	}
}

func requireNoCredential(t *testing.T, body []byte, o outcome) {
	t.Helper()
	if !strings.Contains(string(body), Credential) {
		require.NotContains(t, o.Body+o.Err, Credential)
	}
}

// cutAtRandom cuts a body into pieces no longer than longest.
func cutAtRandom(random *rand.Rand, body []byte, longest int) [][]byte {
	var pieces [][]byte
	for len(body) > 0 {
		n := 1 + random.IntN(min(len(body), longest))
		pieces, body = append(pieces, body[:n]), body[n:]
	}
	return pieces
}
