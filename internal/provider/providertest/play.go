package providertest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"regexp"

	"github.com/google/go-cmp/cmp"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/translate"
)

// created is when every answer of a test was made.
const created = 1700000000

// An outcome is the client's view of one answer, and the codec's report about it.
type outcome struct {
	Status int // 0 if it is the gateway's to choose
	Header http.Header
	Body   string
	Usage  openai.Usage
	Err    string
	// Client is Err, if the client gets it.
	Client *openai.Error
}

func (o *outcome) fail(err error) {
	o.Err = err.Error()
	o.Client, _ = errors.AsType[*openai.Error](err)
}

// failWhole sets the outcome of an answer that failed before anything was written.
func (o *outcome) failWhole(err error) {
	o.fail(err)
	if o.Status, o.Header, o.Body = 0, nil, ""; o.Client != nil {
		o.Status, o.Header, o.Body = o.Client.Status, o.Client.Header(), string(o.Client.AppendJSON(nil))
	}
}

// pipelineOf is the way of an answer to the client.
func pipelineOf(answer provider.Answer, asked chat.Asked, write func(chat.Asked) chat.Writer) *pipeline.Pipeline {
	asked.Carrier = translate.Carrier()
	return pipeline.New(pipeline.Options{Answer: answer, Asked: asked, Writer: write(asked)})
}

// playUnary decodes a whole answer.
func playUnary(answer provider.Answer, r *translate.Request, body []byte) outcome {
	o := outcome{Status: http.StatusOK}
	p := pipelineOf(answer, chat.Asked{Model: r.Model, Created: created, Plain: r.Operation().Dialect.Plain,
		Echo: r.Echo}, r.Operation().Document)
	out, err := p.Whole(context.Background(), bytes.Clone(body))
	if err != nil {
		o.failWhole(err)
		return o
	}
	o.Body, o.Usage = string(out), p.Usage()
	return o
}

// playStream decodes a streamed answer and does with it what the gateway does, which stops at the end mark. Every
// piece is overwritten once it was decoded, for a decoder must keep no reference to it.
func playStream(answer provider.Answer, r *translate.Request, pieces [][]byte) outcome {
	o := outcome{Status: http.StatusOK}
	p := pipelineOf(answer, chat.Asked{Model: r.Model, Created: created, IncludeUsage: r.IncludeUsage,
		Plain: r.Operation().Dialect.Plain, Echo: r.Echo},
		r.Operation().Stream)
	var out []byte
	for i := 0; i <= len(pieces); i++ { // the body ends after the last piece
		var piece []byte
		if i < len(pieces) {
			piece = bytes.Clone(pieces[i])
		}
		now, err := p.Piece(context.Background(), piece, i == len(pieces))
		for i := range piece {
			piece[i] = '#'
		}
		out = append(out, now...)
		if p.HasEnded() {
			break
		}
		if err != nil {
			o.Usage = p.Usage()
			if !p.HasOutput() {
				o.failWhole(err)
				return o
			}
			if o.fail(err); o.Client != nil {
				out = append(out, p.Fail(o.Client)...)
			}
			break
		}
	}
	o.Usage, o.Body = p.Usage(), string(out)
	return o
}

// ids matches the ids in a client's answer.
var ids = regexp.MustCompile(`"(?:id|responseId)":"[^"]*"`)

// same reports whether two outcomes of a body are the same, but for ids that the codec has made.
func same(a, b outcome, body []byte) bool {
	if a.Body != b.Body {
		withoutMade := func(id string) string {
			if bytes.Contains(body, []byte(id)) {
				return id
			}
			return `"id":""`
		}
		a.Body, b.Body = ids.ReplaceAllStringFunc(a.Body, withoutMade), ids.ReplaceAllStringFunc(b.Body, withoutMade)
	}
	return cmp.Equal(a, b)
}

// eachCutting calls f with the body cut in every way that a test tries: one byte at a time, at every place, and at
// random places. Fed is about how many bytes it takes to cut at every place.
func eachCutting(body []byte, fed int, f func(pieces [][]byte)) {
	for pieces := range translate.Cuttings(body, fed) {
		f(pieces)
	}
	random := rand.New(rand.NewPCG(1, uint64(len(body))))
	for range 20 {
		f(cutAtRandom(random, body, 300))
	}
}
