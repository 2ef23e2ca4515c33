package providertest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// created is when every answer of a test was made.
const created = 1700000000

// An outcome is what the client gets for one answer, and what the codec said about it.
type outcome struct {
	Status int // 0 where it is the gateway's to choose
	Header http.Header
	Body   string
	Usage  openai.Usage
	Err    string
	// Client is Err, where it is one that the client gets.
	Client *openai.Error
}

func (o *outcome) fail(err error) {
	o.Err = err.Error()
	o.Client, _ = errors.AsType[*openai.Error](err)
}

// failWhole makes the outcome that of an answer of which nothing was written yet.
func (o *outcome) failWhole(err error) {
	o.fail(err)
	if o.Status, o.Header, o.Body = 0, nil, ""; o.Client != nil {
		o.Status, o.Header, o.Body = o.Client.Status, o.Client.Header(), string(o.Client.AppendJSON(nil))
	}
}

// playUnary decodes a whole answer.
func playUnary(answer provider.ChatAnswer, model string, body []byte) outcome {
	o := outcome{Status: http.StatusOK}
	out, usage, err := answer.Decode(bytes.Clone(body), model, created)
	if err != nil {
		o.failWhole(err)
		return o
	}
	o.Body, o.Usage = string(out), usage
	return o
}

// playStream decodes a streamed answer and does with it what the gateway does. Every piece is overwritten once it was
// decoded, for a decoder must keep no reference to it.
func playStream(answer provider.ChatAnswer, r *openai.ChatRequest, pieces [][]byte) outcome {
	o := outcome{Status: http.StatusOK}
	w := openai.NewStreamWriter(r.Model, created, r.IncludeUsage)
	stream := answer.Stream()
	var out []byte
	var err error
	for _, p := range pieces {
		p = bytes.Clone(p)
		err = stream.Decode(p, w)
		for i := range p {
			p[i] = '#'
		}
		if out = append(out, w.Take()...); err != nil {
			break
		}
	}
	if err == nil {
		err = stream.Close(w)
	}
	out = append(out, w.Take()...)
	o.Usage = w.Usage()
	switch {
	case err == nil:
		w.Done()
	case len(out) == 0:
		o.failWhole(err)
		return o
	default:
		if o.fail(err); o.Client != nil {
			w.Error(o.Client)
		}
	}
	o.Body = string(append(out, w.Take()...))
	return o
}

// splits is the most places at which a body is cut in two. Longer bodies are cut at places spread evenly over them.
const splits = 600

// eachCutting calls f with the body cut in every way that a test tries: one byte at a time, in two at every place, and
// at random places.
func eachCutting(body []byte, f func(pieces [][]byte)) {
	f(bytes.SplitAfter(body, nil))
	for i := 0; i <= len(body); i += 1 + len(body)/splits {
		f([][]byte{body[:i], body[i:]})
	}
	random := rand.New(rand.NewPCG(1, uint64(len(body))))
	for range 50 {
		var pieces [][]byte
		for rest := body; len(rest) > 0; {
			n := 1 + random.IntN(min(len(rest), 300))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		f(pieces)
	}
}
