package messages

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/sse"
)

// A Native is a request of a client that itself speaks the Messages dialect, as a vendor of Claude gets it: byte for
// byte the client's, but for what names the model, the version and the betas.
type Native struct {
	Body    []byte
	Betas   []string // for the header, if they are not in the body
	Dropped []string
}

// EncodeNative returns the vendor's request for r. The vendor is "" for a server that only has Anthropic's dialect. A
// model goes into the body, unless it is empty. A version likewise,
// and then the betas too. Members in without are left out. Can says what the model can do.
func EncodeNative(vendor string, r provider.NativeRequest, can *configv1.Capabilities, model, version string,
	without ...string) Native {
	out := Native{}
	var all bool
	if out.Betas, all = Betas(vendor, jsontext.Value(openai.AppendString(nil, r.Betas))); !all {
		out.Dropped = append(out.Dropped, "anthropic-beta")
	}
	src := returned(withoutPrivate(r.Body, vendor), r.Carrier, can.GetInlineSystem())
	dst := append(make([]byte, 0, len(src)+128), '{')
	dst = text(dst, "anthropic_version", version)
	if version != "" {
		dst = stringList(dst, "anthropic_beta", out.Betas)
	}
	dst = text(dst, "model", model)
	jsonwalk.Object(src, jsonwalk.Between(src, 0), func(name, nameEnd, start int) int {
		end := jsonwalk.Value(src, start)
		switch member := openai.Unquote(src[name:nameEnd]); {
		case member == "model", member == "anthropic_version", member == "anthropic_beta":
		case slices.Contains(without, member):
		default:
			if dst[len(dst)-1] != '{' {
				dst = append(dst, ',')
			}
			dst = append(append(dst, src[name:nameEnd]...), ':')
			dst = append(dst, src[start:end]...)
		}
		return end
	})
	out.Body = append(dst, '}')
	return out
}

// A NativeAnswer reads answers for clients of the dialect. It implements provider.Answer. Beside the events it gives
// the vendor's own form, which the client gets with its own name of the model.
type NativeAnswer struct{ Answer }

// Decode implements provider.Answer.
func (a *NativeAnswer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	out.Put(chat.Event{Kind: chat.KindNative})
	if err := a.Answer.Decode(body, asked, &chat.Covered{Out: out}); err != nil {
		return err
	}
	out.Put(chat.Event{Kind: chat.KindNative, JSON: withModel(bytes.TrimSpace(body), asked.Model)})
	return nil
}

// Stream implements provider.Answer.
func (a *NativeAnswer) Stream(asked chat.Asked) provider.Stream {
	return &nativeStream{events: a.Events(asked)}
}

// A nativeStream implements provider.Stream.
type nativeStream struct {
	events NativeEvents
	sse    sse.Decoder
}

// Decode implements provider.Stream.
func (s *nativeStream) Decode(piece []byte, out chat.Sink) error {
	s.sse.Feed(piece)
	for {
		e, ok, err := s.sse.Next()
		if err != nil {
			return fmt.Errorf("reading the provider's stream: %w", err)
		}
		if !ok {
			return nil
		}
		if err := s.events.Event(e.Data, out); err != nil {
			return err
		}
	}
}

// Close implements provider.Stream.
func (s *nativeStream) Close(out chat.Sink) error {
	if e, ok := s.sse.Close(); ok && jsonwalk.Valid(e.Data) {
		if err := s.events.Event(e.Data, out); err != nil {
			return err
		}
	}
	return s.events.Close()
}

// NativeEvents reads the events of one streamed answer, for a vendor that frames them in its own way.
type NativeEvents struct {
	inner Stream
	out   chat.Covered // kept so that none is allocated for an event
	model string
	begun bool
	buf   []byte
}

// Events returns a reader of the events of one streamed answer.
func (a *NativeAnswer) Events(asked chat.Asked) NativeEvents {
	return NativeEvents{inner: Stream{answer: &a.Answer, carrier: asked.Carrier}, model: asked.Model}
}

// Close ends the answer. An answer without its last event is truncated.
func (s *NativeEvents) Close() error {
	if !s.inner.done {
		return provider.ErrTruncated
	}
	return nil
}

// Event reads the data of one event and puts its events into out. It keeps no reference to data.
func (s *NativeEvents) Event(data []byte, out chat.Sink) error {
	if s.inner.done {
		return nil
	}
	if !s.begun {
		s.begun = true
		out.Put(chat.Event{Kind: chat.KindNative})
	}
	again := s.inner.begun
	s.out.Out = out
	if err := s.inner.Event(data, &s.out); err != nil {
		return err
	}
	typ := s.inner.event.Type
	if again && typ == "message_start" {
		return nil // proxies were seen to repeat it
	}
	s.buf = append(append(append(s.buf[:0], "event: "...), typ...), "\ndata: "...)
	if typ == "message_start" {
		m := gjson.GetBytes(data, "message")
		s.buf = append(s.buf, data[:m.Index]...)
		s.buf = append(append(s.buf, withModel([]byte(m.Raw), s.model)...), data[m.Index+len(m.Raw):]...)
	} else {
		s.buf = append(s.buf, data...)
	}
	s.buf = append(s.buf, "\n\n"...)
	out.Put(chat.Event{Kind: chat.KindNative, JSON: s.buf})
	return nil
}

// withModel returns a message with the client's name of the model.
func withModel(message []byte, model string) []byte {
	m := gjson.GetBytes(message, "model")
	if m.Index == 0 || m.Str == model {
		return message
	}
	out := append(make([]byte, 0, len(message)+len(model)), message[:m.Index]...)
	return append(append(out, openai.AppendString(nil, model)...), message[m.Index+len(m.Raw):]...)
}
