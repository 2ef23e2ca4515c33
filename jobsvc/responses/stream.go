package responses

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/sse"
	"github.com/modelgate/modelgate/jobsvc/memory"
)

// A reader reads the events of a streamed response from the gateway.
type reader struct {
	from   io.Reader
	buffer []byte
	events sse.Decoder
	ended  bool // by an event that says so
	next   int64
}

func newReader(from io.Reader) *reader { return &reader{from: from, buffer: make([]byte, 32<<10)} }

// errTruncated means that a stream ended before the response did.
var errTruncated = errors.New("the stream ended before the response")

// each calls f with the events that the next piece completes. The error is io.EOF after the last one.
func (r *reader) each(f func(name string, data []byte)) error {
	n, err := r.from.Read(r.buffer)
	r.events.Feed(r.buffer[:n])
	for {
		e, ok, wrong := r.events.Next()
		if wrong != nil {
			return wrong
		}
		if !ok {
			break
		}
		r.take(e, f)
	}
	if errors.Is(err, io.EOF) {
		if e, ok := r.events.Close(); ok {
			r.take(e, f)
		}
		if !r.ended {
			return errTruncated
		}
	}
	return err
}

func (r *reader) take(e sse.Event, f func(name string, data []byte)) {
	name := e.Name
	if name == "" {
		name = gjson.GetBytes(e.Data, "type").Str
	}
	if name == "" || r.ended {
		return // a comment, or [DONE]
	}
	if n := gjson.GetBytes(e.Data, "sequence_number"); n.Exists() {
		r.next = n.Int() + 1
	}
	r.ended = isLast(name) || name == "error"
	f(name, e.Data)
}

// isLast reports whether an event has the complete response.
func isLast(name string) bool {
	return name == "response.completed" || name == "response.incomplete" || name == "response.failed"
}

// hasResponse reports whether an event has a response object.
func hasResponse(name string) bool {
	return isLast(name) || name == "response.created" || name == "response.queued" || name == "response.in_progress"
}

// appendEvent appends an event.
func appendEvent(dst []byte, name string, data []byte) []byte {
	dst = append(append(append(dst, "event: "...), name...), "\ndata: "...)
	return append(append(dst, data...), "\n\n"...)
}

// appendErrorEvent appends the event that ends a stream with an error.
func appendErrorEvent(dst []byte, f *failure, sequence int64) []byte {
	data := replaced(nil, set("type", text("error")), set("code", text(f.code)), set("message", text(f.message)),
		set("param", []byte("null")), set("sequence_number", strconv.AppendInt(nil, sequence, 10)))
	return appendEvent(dst, "error", data)
}

// stream passes the events of a response, and stores it before its last event is passed.
func (s *Service) stream(ctx context.Context, w http.ResponseWriter, body io.Reader, t *turn) {
	out := beginStream(w)
	r := newReader(body)
	for {
		var batch []byte
		err := r.each(func(name string, data []byte) {
			if hasResponse(name) {
				name, data = s.event(ctx, t, name, data)
			}
			batch = appendEvent(batch, name, data)
		})
		if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
			s.Log.Warn("a stream of a response broke", zap.String("response", t.id), zap.Error(err))
			batch = appendErrorEvent(batch, cut, r.next)
		}
		if out.write(batch) != nil || err != nil {
			return
		}
	}
}

// event returns an event with a response object as the client's. The last one is stored first: if that fails, and the
// client needs it, the response has failed.
func (s *Service) event(ctx context.Context, t *turn, name string, data []byte) (string, []byte) {
	object := []byte(gjson.GetBytes(data, "response").Raw)
	if isLast(name) {
		memory.Of(ctx).Owe(answerCopies * int64(len(data)))
		if err := s.settle(ctx, t, object); err != nil {
			s.Log.Error("a response that the client wants stored was not", zap.String("response", t.id), zap.Error(err))
			name, t.store = "response.failed", false
			data = spliced(data, "type", text(name))
			object = unstored.failed(object)
		}
	}
	return name, spliced(data, "response", t.own(object))
}

// A sink writes events to a client.
type sink struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// beginStream sends the headers of a stream of events.
func beginStream(w http.ResponseWriter) *sink {
	w.Header().Set("Content-Type", typeEvents+"; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	s := &sink{w, http.NewResponseController(w)}
	_ = s.control.Flush() // the next write reports what is wrong
	return s
}

// write sends events at once.
func (s *sink) write(events []byte) error {
	if len(events) == 0 {
		return nil
	}
	if _, err := s.w.Write(events); err != nil {
		return err
	}
	return s.control.Flush()
}
