// Package chattest writes answers for tests of codecs, as a client of chat completions gets them.
package chattest

import (
	"bytes"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	inbound "github.com/modelgate/modelgate/internal/inbound/openai"
)

// A Stream is a sink that writes chunks and records the other calls.
type Stream struct {
	*inbound.ChatStream
	Asked chat.Asked
	usage openai.Usage
	tier  string
	ended bool
}

// Carrier returns what writes and reads ids of calls in tests.
func Carrier() openai.Carrier { return openai.NewCarrierKey([]byte("test")).For("o", "key_1") }

// NewStream returns a sink for a request for model.
func NewStream(model string, created int64, includeUsage bool) *Stream {
	asked := chat.Asked{Model: model, Created: created, IncludeUsage: includeUsage, Carrier: Carrier()}
	return &Stream{ChatStream: inbound.NewChatStream(asked), Asked: asked}
}

// Put implements chat.Sink.
func (s *Stream) Put(e chat.Event) {
	switch e.Kind {
	case chat.KindUsage:
		s.usage = *e.Usage
	case chat.KindTier:
		s.tier = e.Text
	case chat.KindEnd:
		s.ended = true
	}
	s.ChatStream.Put(e)
}

// Usage returns the last reported usage.
func (s *Stream) Usage() openai.Usage { return s.usage }

// Tier returns the last reported service tier.
func (s *Stream) Tier() string { return s.tier }

// IsDone reports whether the answer is complete.
func (s *Stream) IsDone() bool { return s.ended }

// An Answer is a provider.Answer, as far as it reads what came whole.
type Answer interface {
	Decode(body []byte, asked chat.Asked, out chat.Sink) error
}

// A document is a writer that knows the usage.
type document struct {
	chat.Writer
	usage openai.Usage
}

func (d *document) Put(e chat.Event) {
	if e.Kind == chat.KindUsage {
		d.usage = *e.Usage
	}
	d.Writer.Put(e)
}

// Decode returns what the client gets for an answer that came whole.
func Decode(a Answer, body []byte, model string, created int64) ([]byte, openai.Usage, error) {
	asked := chat.Asked{Model: model, Created: created, Carrier: Carrier()}
	d := &document{Writer: inbound.NewChatDocument(asked)}
	if err := a.Decode(body, asked, d); err != nil {
		return nil, openai.Usage{}, err
	}
	return bytes.Clone(d.Take()), d.usage, nil
}
