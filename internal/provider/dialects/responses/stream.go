package responses

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/sse"
)

// An event is one event of a streamed answer. Its type says which members it has.
type event struct {
	Type        string         `json:"type"`
	Response    response       `json:"response"`
	Item        output         `json:"item"`
	OutputIndex int            `json:"output_index"`
	PartIndex   int            `json:"summary_index"`
	Delta       string         `json:"delta"`
	Arguments   string         `json:"arguments"`
	Logprobs    jsontext.Value `json:"logprobs"`
}

// A stream implements provider.Stream.
type stream struct {
	*answer
	carrier  openai.Carrier
	events   sse.Decoder
	begun    bool
	done     bool
	calls    []openCall
	thoughts []jsontext.Value // reasoning since the last call
	part     int              // of the reasoning that is under way
	reasoned bool             // the item under way has some reasoning
	searches int64
}

// An openCall is a call whose arguments come.
type openCall struct {
	index int // of the item
	some  bool
}

// Decode implements provider.Stream.
func (s *stream) Decode(piece []byte, out chat.Sink) error {
	err := s.events.Each(piece, func(e sse.Event) error { return s.take(e, out) })
	if errors.Is(err, sse.ErrTooLarge) {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	return err
}

// Close implements provider.Stream.
func (s *stream) Close(out chat.Sink) error {
	if e, ok := s.events.Close(); ok && jsonwalk.Valid(e.Data) {
		if err := s.take(e, out); err != nil {
			return err
		}
	}
	if !s.done {
		return provider.ErrTruncated
	}
	return nil
}

func (s *stream) take(e sse.Event, out chat.Sink) error {
	data := bytes.TrimSpace(e.Data)
	if s.done || len(data) == 0 || string(data) == "[DONE]" {
		return nil
	}
	var v event
	if err := json.Unmarshal(data, &v, provider.Lenient); err != nil {
		return fmt.Errorf("%w: an event of its stream: %w", provider.ErrNotAnAnswer, err)
	}
	switch v.Type {
	case "response.created", "response.in_progress":
		s.begin(&v, out)
	case "response.output_text.delta":
		s.begin(&v, out)
		text := chat.Text(0, v.Delta)
		text.Logprobs = logprobs(v.Logprobs)
		out.Put(text)
	case "response.refusal.delta":
		out.Put(chat.Refusal(0, v.Delta))
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		s.reasoning(&v, out)
	case "response.output_item.added":
		s.reasoned, s.part = false, 0
		return s.added(&v, out)
	case "response.function_call_arguments.delta":
		s.arguments(v.OutputIndex, v.Delta, false, out)
	case "response.function_call_arguments.done":
		s.arguments(v.OutputIndex, v.Arguments, true, out)
	case "response.output_item.done":
		s.itemDone(&v, out)
	case "response.completed", "response.incomplete":
		s.end(&v, out)
	case "response.failed", "error":
		return s.failed(&v, data)
	}
	return nil
}

// failed returns the error that an event reports.
func (s *stream) failed(v *event, data []byte) error {
	if v.Response.Error != nil {
		data = append(append([]byte(`{"error":`), v.Response.Error...), '}')
	}
	return s.dialect.InBand(data)
}

func (s *stream) begin(v *event, out chat.Sink) {
	if s.begun {
		return
	}
	s.begun = true
	begin := chat.Begin(provider.ID(v.Response.ID))
	begin.Created = int64(v.Response.Created)
	out.Put(begin)
	out.Put(chat.Role(0))
}

func (s *stream) reasoning(v *event, out chat.Sink) {
	if s.reasoned && v.PartIndex != s.part {
		out.Put(chat.Reasoning(0, "\n\n"))
	}
	s.reasoned, s.part = true, v.PartIndex
	out.Put(chat.Reasoning(0, v.Delta))
}

// added takes in the beginning of an item. Its call gets the reasoning that came before it.
func (s *stream) added(v *event, out chat.Sink) error {
	if v.Item.Type != "function_call" {
		return nil
	}
	if len(s.calls) >= provider.MaxOpen {
		return provider.ErrTooManyOpen
	}
	s.begin(v, out)
	out.Put(chat.ToolCall(0, len(s.calls), s.carry(s.carrier, v.Item.CallID, s.thoughts), s.names.Client(v.Item.Name)))
	s.calls, s.thoughts = append(s.calls, openCall{index: v.OutputIndex}), nil
	return nil
}

// arguments tells a fragment of a call's arguments, or all of them if none came before.
func (s *stream) arguments(index int, text string, whole bool, out chat.Sink) {
	for i := range s.calls {
		c := &s.calls[i]
		if c.index != index || text == "" || whole && c.some {
			continue
		}
		c.some = true
		out.Put(chat.Arguments(0, i, text))
	}
}

func (s *stream) itemDone(v *event, out chat.Sink) {
	switch v.Item.Type {
	case "reasoning":
		if thought := v.Item.thought(); !s.reasoned && thought != "" {
			out.Put(chat.Reasoning(0, thought))
		}
		s.thoughts = append(s.thoughts, v.Item.carried()...)
	case "web_search_call":
		s.searches++
	case "function_call":
		s.arguments(v.OutputIndex, v.Item.arguments(), true, out)
	case "message":
		var found []jsontext.Value
		for i := range v.Item.Content {
			found = append(found, nested(v.Item.Content[i].Annotations)...)
		}
		if len(found) > 0 {
			list, err := json.Marshal(found)
			if err == nil { // they were read
				out.Put(chat.Member(0, "annotations", list))
			}
		}
	}
}

func (s *stream) end(v *event, out chat.Sink) {
	s.begin(v, out)
	if u := v.Response.used(s.searches); !u.IsZero() {
		out.Put(chat.Usage(u))
	}
	if v.Response.ServiceTier != "" {
		out.Put(chat.Tier(v.Response.ServiceTier))
	}
	out.Put(chat.Finish(0, v.Response.finish(len(s.calls) > 0)))
	out.Put(chat.End())
	s.done = true
}
