package translate

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/provider"
)

// A Response is an HTTP response: a vendor's, or what a client gets for it.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// An Exchange is a request that was sent, and how the answer to it is read.
type Exchange struct {
	Provider provider.Provider
	Request  *Request
	Answer   provider.Answer
	// Names of parameters: see provider.Request.
	Dropped, Adjusted []string
	Created           int64 // in Unix seconds, if the vendor does not say
}

// Respond returns what the client gets for a vendor's response, whose body comes in the pieces. A response without a
// content type has the right one.
func (x *Exchange) Respond(from Response, pieces ...[]byte) Response {
	to := x.respond(from, pieces)
	to.Header.Set("X-Modelgate-Provider", x.Provider.Name)
	if len(x.Dropped) > 0 {
		to.Header.Set("X-Modelgate-Dropped", strings.Join(x.Dropped, ","))
	}
	if len(x.Adjusted) > 0 {
		to.Header.Set("X-Modelgate-Adjusted", strings.Join(x.Adjusted, ","))
	}
	return to
}

func (x *Exchange) respond(from Response, pieces [][]byte) Response {
	whole := slices.Concat(pieces...)
	switch media, _, _ := mime.ParseMediaType(from.Header.Get("Content-Type")); {
	case from.Status < 200 || from.Status > 299:
		return failed(x.Request.operation.Dialect, x.Provider.DecodeError(from.Status, from.Header, whole))
	case len(whole) == 0:
		return failed(x.Request.operation.Dialect, provider.ErrNotAnAnswer)
	case x.Answer == nil: // the vendor's answer passes
		if from.Header.Get("Content-Type") == "" && x.Request.Stream {
			return streamed(whole)
		}
		return succeeded(cmp.Or(from.Header.Get("Content-Type"), "application/json"), whole)
	case !x.Request.Stream:
		body, err := x.pipeline(x.Request.operation.Document).Whole(context.Background(), whole)
		if err != nil {
			return failed(x.Request.operation.Dialect, err)
		}
		return succeeded("application/json", body)
	case media != "" && !x.Provider.Streams(media):
		return failed(x.Request.operation.Dialect, pipeline.ErrNotAStream)
	}
	return x.stream(pieces)
}

func (x *Exchange) pipeline(write func(chat.Asked) chat.Writer) *pipeline.Pipeline {
	asked := chat.Asked{Model: x.Request.Model, Created: x.Created, IncludeUsage: x.Request.IncludeUsage,
		Plain: x.Request.operation.Dialect.Plain, Echo: x.Request.Echo, Carrier: Carrier()}
	return pipeline.New(pipeline.Options{Answer: x.Answer, Asked: asked, Writer: write(asked)})
}

// stream feeds a stream as the gateway does, whose status waits until the answer says something.
func (x *Exchange) stream(pieces [][]byte) Response {
	p := x.pipeline(x.Request.operation.Stream)
	var out []byte
	for i, piece := range pieces {
		now, err := p.Piece(context.Background(), piece, i == len(pieces)-1)
		out = append(out, now...)
		if err != nil && !p.HasOutput() {
			return failed(x.Request.operation.Dialect, err)
		}
		if err != nil {
			out = append(out, p.Fail(pipeline.ClientError(err))...)
			break
		}
		if p.HasEnded() {
			break
		}
	}
	return streamed(out)
}

func streamed(body []byte) Response {
	reply := succeeded("text/event-stream; charset=utf-8", body)
	reply.Header.Del("Content-Length")
	reply.Header.Set("Cache-Control", "no-cache")
	return reply
}

func succeeded(contentType string, body []byte) Response {
	return Response{http.StatusOK, http.Header{"Content-Type": {contentType},
		"Content-Length": {strconv.Itoa(len(body))}}, body}
}

func failed(d *inbound.Dialect, err error) Response {
	e := pipeline.ClientError(err)
	body := d.AppendError(nil, e)
	header := e.Header()
	header.Set("Content-Length", strconv.Itoa(len(body)))
	return Response{e.Status, header, body}
}

// fed is about how many bytes Cuts feeds to codecs.
const fed = 64 << 20

// Cuts checks that the client gets the same for a vendor's response however its body is cut: at every place, and into
// single bytes. A body of up to 8 KB is cut at one place at a time, a longer one at several. Ids do not count, for a
// codec may have made them.
func (x *Exchange) Cuts(from Response, want Response) error {
	for pieces := range Cuttings(from.Body, fed) {
		if got := x.Respond(from, pieces...); !same(got, want) {
			return fmt.Errorf("the answer differs where the body comes in %d pieces, the first of %d bytes", len(pieces),
				len(pieces[0]))
		}
	}
	return nil
}

// Cuttings yields a body cut into pieces in different ways: into single bytes, and such that it is cut once at every
// place. If that would be more than about limit bytes in all, it is cut at several places at a time.
func Cuttings(body []byte, limit int) iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		if len(body) < 2 || !yield(bytes.SplitAfter(body, nil)) {
			return
		}
		apart := min(len(body)-1, max(1, limit/len(body)))
		for first := 1; first <= apart; first++ {
			pieces := slices.Collect(slices.Chunk(body[first:], apart))
			if !yield(append([][]byte{body[:first]}, pieces...)) {
				return
			}
		}
	}
}

// ids matches the ids in a client's answer.
var ids = regexp.MustCompile(`"(?:id|responseId)":"[^"]*"`)

func same(a, b Response) bool {
	if a.Status != b.Status || !reflect.DeepEqual(a.Header, b.Header) {
		return false
	}
	return bytes.Equal(a.Body, b.Body) || bytes.Equal(ids.ReplaceAll(a.Body, nil), ids.ReplaceAll(b.Body, nil))
}

// Head returns the status line and the headers as HTTP/1.1 has them, up to and with the blank line.
func (r Response) Head() []byte {
	out := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n", r.Status, http.StatusText(r.Status))
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		out = fmt.Appendf(out, "%s: %s\r\n", strings.ToLower(name), r.Header.Get(name))
	}
	return append(out, "\r\n"...)
}
