package legacy

import (
	"bytes"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/sse"
)

// answer implements provider.Answer.
type answer struct{ inner provider.Answer }

// Decode implements provider.Answer.
func (a *answer) Decode(body []byte, model string, created int64) ([]byte, openai.Usage, error) {
	out, usage, err := a.inner.Decode(body, model, created)
	if err != nil {
		return nil, usage, asFunctions(err)
	}
	return rebuilt(out, "message"), usage, nil
}

// rebuilt returns what a client of functions gets for an answer or a chunk, or nil where that is nothing.
func rebuilt(chat []byte, said string) []byte {
	if !bytes.Contains(chat, []byte(`"tool_calls"`)) {
		return chat
	}
	r := rebuild{said: said}
	out := r.append(make([]byte, 0, len(chat)), gjson.ParseBytes(chat))
	if !r.rest {
		return nil
	}
	return out
}

// Stream implements provider.Answer.
func (a *answer) Stream() provider.Stream { return &stream{inner: a.inner.Stream()} }

// stream implements provider.Stream: it reads the chunks that the codec writes for a client of tools.
type stream struct {
	inner  provider.Stream
	chunks *openai.StreamWriter
	events sse.Decoder
}

// Decode implements provider.Stream.
func (s *stream) Decode(piece []byte, w *openai.StreamWriter) error {
	err := s.inner.Decode(piece, s.to(w))
	return s.forward(w, err)
}

// Close implements provider.Stream.
func (s *stream) Close(w *openai.StreamWriter) error {
	err := s.inner.Close(s.to(w))
	return s.forward(w, err)
}

// to returns the writer of the codec's chunks, which go to w.
func (s *stream) to(w *openai.StreamWriter) *openai.StreamWriter {
	if s.chunks == nil {
		s.chunks = openai.NewStreamWriter(w.Model(), w.Created(), w.IncludeUsage())
	}
	return s.chunks
}

// forward writes what the codec has written, and returns err, with which it ended.
func (s *stream) forward(w *openai.StreamWriter, err error) error {
	w.SetUsage(s.chunks.Usage())
	w.SetTier(s.chunks.Tier())
	s.events.Feed(s.chunks.Take())
	for {
		e, ok, wrong := s.events.Next()
		switch {
		case wrong != nil:
			return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, wrong)
		case !ok:
			if s.chunks.IsDone() {
				w.Done()
			}
			return err
		case string(e.Data) == "[DONE]":
			continue
		}
		if chunk := rebuilt(e.Data, "delta"); chunk != nil {
			w.EventFunc(func(dst []byte) []byte { return append(dst, chunk...) })
		}
	}
}
