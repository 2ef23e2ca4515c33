package overchat

import (
	"fmt"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/sse"
)

// Stream implements provider.Answer.
func (a *answer) Stream() provider.Stream {
	return &stream{inner: a.inner.Stream(), echo: a.echo, choices: map[int64]*choice{}}
}

// stream implements provider.Stream: it reads the chunks that the chat codec writes for a client of its own.
type stream struct {
	inner   provider.Stream
	chunks  *openai.StreamWriter
	events  sse.Decoder
	echo    string
	head    []byte // everything of a chunk up to its choices, once the first came
	choices map[int64]*choice
}

type choice struct {
	offset   int // where in the text the next token begins, in characters
	finished bool
}

// Decode implements provider.Stream.
func (s *stream) Decode(piece []byte, w *openai.StreamWriter) error {
	if s.chunks == nil {
		s.chunks = openai.NewStreamWriter(w.Model(), w.Created(), w.IncludeUsage())
	}
	err := s.inner.Decode(piece, s.chunks)
	return s.forward(w, err)
}

// Close implements provider.Stream.
func (s *stream) Close(w *openai.StreamWriter) error {
	if s.chunks == nil {
		return provider.ErrTruncated
	}
	err := s.inner.Close(s.chunks)
	if err == nil {
		s.chunks.Done()
	}
	return s.forward(w, err)
}

// forward writes what the chat codec has written, and returns err, with which it ended.
func (s *stream) forward(w *openai.StreamWriter, err error) error {
	w.SetUsage(s.chunks.Usage())
	w.SetTier(s.chunks.Tier())
	s.events.Feed(s.chunks.Take())
	for {
		e, ok, wrong := s.events.Next()
		if wrong != nil {
			return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, wrong)
		}
		if !ok {
			return err
		}
		if string(e.Data) == "[DONE]" {
			w.Done()
		} else {
			s.chunk(gjson.ParseBytes(e.Data), w)
		}
	}
}

// chunk writes what a chunk of the chat completion says.
func (s *stream) chunk(chunk gjson.Result, w *openai.StreamWriter) {
	if s.head == nil {
		s.head = appendHead(nil, completionID(chunk.Get("id").Str), chunk.Get("created").Int(), w.Model())
	}
	chunk.Get("choices").ForEach(func(_, c gjson.Result) bool {
		s.choice(c, w)
		return true
	})
	if usage := chunk.Get("usage"); usage.IsObject() && w.IncludeUsage() {
		s.write(w, nil, usage.Raw)
	}
}

// choice writes what a chunk says of one choice: its text, and after it, in a chunk without text, its end.
func (s *stream) choice(c gjson.Result, w *openai.StreamWriter) {
	index := c.Get("index").Int()
	state := s.choices[index]
	if state == nil {
		state = &choice{offset: utf8.RuneCountInString(s.echo)}
		s.choices[index] = state
		if s.echo != "" {
			s.write(w, appendChoice(nil, index, s.echo, nil, ""), "null")
		}
	}
	text, logprobs := said(c.Get("delta")), appendLogprobs(nil, c.Get("logprobs"), &state.offset)
	if text != "" || logprobs != nil {
		s.write(w, appendChoice(nil, index, text, logprobs, ""), "null")
	}
	if reason := finishReason(c.Get("finish_reason").Str); reason != "" && !state.finished {
		state.finished = true
		s.write(w, appendChoice(nil, index, "", nil, reason), "null")
	}
}

// write writes a chunk with the choices and, where the client asked for usage, with this.
func (s *stream) write(w *openai.StreamWriter, choices []byte, usage string) {
	w.EventFunc(func(dst []byte) []byte {
		dst = append(append(append(dst, s.head...), choices...), ']')
		if w.IncludeUsage() {
			dst = append(append(dst, `,"usage":`...), usage...)
		}
		return append(dst, '}')
	})
}
