package provider

import "github.com/modelgate/modelgate/internal/chat"

// Unstreamed is a part of answers that are never streamed.
type Unstreamed struct{}

// Stream implements Answer.
func (Unstreamed) Stream(chat.Asked) Stream { return noStream{} }

type noStream struct{}

// Decode implements Stream.
func (noStream) Decode([]byte, chat.Sink) error { return ErrNotAnAnswer }

// Close implements Stream.
func (noStream) Close(chat.Sink) error { return ErrNotAnAnswer }
