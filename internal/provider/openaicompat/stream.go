package openaicompat

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/sse"
)

// stream implements provider.ChatStream.
type stream struct {
	dialect *Dialect
	events  sse.Decoder
	choices choiceStates
	patch   patch

	// id, created and model are the JSON values that every chunk has: the first chunk's, and the client's name.
	id, created, model string
	// last is the latest chunk that reported usage, kept for a client that asked for it.
	last     []byte
	complete bool
}

// Decode implements provider.ChatStream.
func (s *stream) Decode(piece []byte, w *openai.StreamWriter) error {
	s.events.Feed(piece)
	for {
		e, ok, err := s.events.Next()
		if err != nil {
			return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
		}
		if !ok {
			return nil
		}
		if err := s.event(e, w); err != nil {
			return err
		}
	}
}

// Close implements provider.ChatStream.
func (s *stream) Close(w *openai.StreamWriter) error {
	if e, ok := s.events.Close(); ok {
		// Its blank line is missing. It may be whole nevertheless; half an event is no more than a truncated stream.
		if _, whole := scan(bytes.TrimSpace(e.Data)); whole || isDone(e.Data) {
			if err := s.event(e, w); err != nil {
				return err
			}
		}
	}
	if s.dialect.NoDone && s.choices.allFinished() {
		s.finish(w)
	}
	if !s.complete {
		return provider.ErrTruncated
	}
	return nil
}

func (s *stream) event(e sse.Event, w *openai.StreamWriter) error {
	if s.complete {
		return nil
	}
	data := bytes.TrimSpace(e.Data)
	switch {
	case len(data) == 0:
		return nil
	case isDone(data):
		if s.choices.anyStarted() { // an end without a beginning is no answer
			s.finish(w)
		}
		return nil
	}
	if bytes.IndexByte(data, '\n') >= 0 { // JSON over several data lines; between tokens any white space will do
		data = bytes.ReplaceAll(data, []byte("\n"), []byte(" "))
	}
	m, ok := scan(data)
	switch {
	case ok && isError(data, m), e.Name == "error", !ok && readError(data).message != "":
		return inBand(data)
	case !ok:
		return fmt.Errorf("%w: an event of its stream is not a JSON object", provider.ErrNotAnAnswer)
	}
	s.chunk(data, m, w)
	return nil
}

// chunk writes a chunk as the client is to see it. One without choices is never written: clients read choices[0].
func (s *stream) chunk(data []byte, m members, w *openai.StreamWriter) {
	if u := m.usage.value(data); len(u) > 0 && u[0] == '{' {
		w.SetUsage(readUsage(u))
		if w.IncludeUsage() { // vendors that report usage more than once count up: the last one counts
			s.last = append(s.last[:0], data...)
		}
	}
	if list := m.choices.value(data); len(list) == 0 || list[0] != '[' || isEmpty(list) {
		return
	}
	if s.model == "" {
		s.model = quote(w.Model())
		s.id = cmp.Or(string(m.id.value(data)), quote(newID()))
		s.created = cmp.Or(string(m.created.value(data)), strconv.FormatInt(w.Created(), 10))
	}
	s.patch.reset(data)
	if !s.choices.rewrite(&s.patch, m.choices, s.dialect) {
		return
	}
	s.identify(m)
	if w.IncludeUsage() {
		s.patch.set(m.usage, m.end, `,"usage":`, "null")
	} else if m.usage.found() {
		s.patch.remove(m.usage)
	}
	w.EventFunc(s.patch.appendTo)
}

// identify gives a chunk the id, created and model of the first one, and its type: Perplexity's last one has another.
func (s *stream) identify(m members) {
	s.patch.set(m.model, m.end, `,"model":`, s.model)
	s.patch.set(m.object, m.end, `,"object":`, `"chat.completion.chunk"`)
	s.patch.set(m.id, m.end, `,"id":`, s.id)
	s.patch.set(m.created, m.end, `,"created":`, s.created)
}

// finish ends the stream, with the chunk that reports the usage where the client asked for it.
func (s *stream) finish(w *openai.StreamWriter) {
	s.complete = true
	if m, ok := scan(s.last); ok {
		s.patch.reset(s.last)
		s.patch.set(m.choices, m.end, `,"choices":`, "[]")
		s.identify(m)
		w.EventFunc(s.patch.appendTo)
	}
	s.patch, s.last = patch{}, nil
	w.Done()
}

func isDone(data []byte) bool { return string(bytes.TrimSpace(data)) == "[DONE]" }

func isEmpty(list []byte) bool { return len(bytes.TrimSpace(list[1:len(list)-1])) == 0 }
