package gemini

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// An Answer reads the answer to one request. It is immutable.
type Answer struct {
	vendor string
	names  *turns.Names // the client's names of tools that were renamed
	// oneCall is set if the client takes one call at a time. The vendor has no parameter for that: later calls are
	// left out, and the model makes them again once it has the first one's result.
	oneCall bool
	// audioFormat is how the client wants speech: pcm16, or else wav.
	audioFormat string
}

// Decode implements provider.Answer. An array of answers, which is how the vendor streams where it is not asked for
// events, counts as one answer.
func (a *Answer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	c := &collector{answer: a, created: asked.Created, carrier: asked.Carrier}
	var v values
	v.feed(body)
	taken := false
	for {
		object, ok, err := v.next()
		if err != nil {
			return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
		}
		if !ok {
			break
		}
		taken = true
		if err := c.take(object); err != nil {
			return err
		}
	}
	if !taken || v.open() {
		return fmt.Errorf("%w: the body is not a whole JSON object", provider.ErrNotAnAnswer)
	}
	if err := c.complete(); err != nil {
		return err
	}
	answer := chat.Answer{ID: c.id, Usage: c.usage, ServiceTier: c.tier}
	for i := range c.choices {
		answer.Choices = append(answer.Choices, c.choices[i].answer(c))
	}
	answer.Emit(out)
	return nil
}

// answer returns the choice as a part of a whole answer.
func (ch *choice) answer(c *collector) chat.Choice {
	out := chat.Choice{
		Text: string(ch.text), Refusal: ch.refusal, Reasoning: string(ch.reasoning), Calls: ch.calls,
		Annotations: array(ch.annotations), Images: array(ch.images), FinishReason: finishReason(ch.finish, len(ch.ids) > 0),
		Logprobs: wrapLogprobs(ch.logprobs),
	}
	if ch.audio != nil {
		out.Audio = ch.speech(c)
	}
	return out
}

// Stream implements provider.Answer.
func (a *Answer) Stream(asked chat.Asked) provider.Stream {
	return &stream{collector: collector{answer: a, created: asked.Created, carrier: asked.Carrier}}
}

// A stream decodes one streamed answer.
type stream struct {
	collector
	frames framer
	taken  func(object []byte) // gets each object after its events; nil: nobody wants them
}

// one takes in an object, and gives it on.
func (s *stream) one(object []byte) error {
	err := s.take(object)
	if err == nil && s.taken != nil {
		s.taken(object)
	}
	return err
}

// Decode implements provider.Stream. The vendor has no end mark, and more can follow what it calls the finish: nothing
// is finished before the body ends.
func (s *stream) Decode(piece []byte, out chat.Sink) error {
	s.out = out
	s.frames.feed(piece)
	for {
		object, ok, err := s.frames.next()
		if err != nil {
			return fmt.Errorf("reading the provider's stream: %w", err)
		}
		if !ok {
			return nil
		}
		if err := s.event(object); err != nil {
			return err
		}
	}
}

// event takes the data of one event: an answer, or an array of such.
func (s *stream) event(data []byte) error {
	switch data = bytes.TrimSpace(data); {
	case len(data) == 0, string(data) == "[DONE]":
		return nil
	case data[0] != '[':
		return s.one(data)
	}
	var v values
	v.feed(data)
	for {
		object, ok, err := v.next()
		if err != nil || !ok {
			return err
		}
		if err := s.one(object); err != nil {
			return err
		}
	}
}

// Close implements provider.Stream. An answer is complete where every choice has its reason for finishing.
func (s *stream) Close(out chat.Sink) error {
	s.out = out
	rest, ok := s.frames.close()
	if ok {
		if !jsonwalk.Valid(bytes.TrimSpace(rest)) {
			return provider.ErrTruncated
		}
		if err := s.event(rest); err != nil {
			return err
		}
	}
	unfinished := func(ch choice) bool { return ch.finish == "" }
	if s.frames.open() || s.blocked == nil && (len(s.choices) == 0 || slices.ContainsFunc(s.choices, unfinished)) {
		return provider.ErrTruncated
	}
	if err := s.complete(); err != nil {
		return err
	}
	for i := range s.choices {
		ch := &s.choices[i]
		// Lists are given whole: openai-python's accumulator fails if a second delta adds to one.
		if images := array(ch.images); images != nil {
			out.Put(chat.Member(i, "images", images))
		}
		if annotations := array(ch.annotations); annotations != nil {
			out.Put(chat.Member(i, "annotations", annotations))
		}
		if ch.refusal != "" {
			out.Put(chat.Refusal(i, ch.refusal))
		}
		out.Put(chat.Finish(i, finishReason(ch.finish, len(ch.ids) > 0)))
	}
	out.Put(chat.End())
	return nil
}
