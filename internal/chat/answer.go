package chat

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// An Answer is a complete answer. Codecs that translate fill it from the vendor's answer, and dialects that render it
// collect it from events.
type Answer struct {
	ID          string
	Created     int64 // in Unix seconds, if the vendor reports it
	Choices     []Choice
	Usage       openai.Usage
	ServiceTier string // OpenAI's name
}

// A Choice is one choice of an answer. A JSON member is nil if it is absent.
type Choice struct {
	Text, Refusal, Reasoning string
	Images                   jsontext.Value // the extension images, an array
	ThinkingBlocks           jsontext.Value // the extension thinking_blocks, an array
	Annotations              jsontext.Value // an array
	Audio                    jsontext.Value // an object
	Calls                    []Call
	Logprobs                 jsontext.Value // an object
	FinishReason             string
}

// A Call is a call of a tool. Arguments is the text of the model and normally JSON.
type Call struct {
	ID, Name, Arguments string
	ExtraContent        jsontext.Value // may be nil
	Function            bool           // see Event
}

// Emit puts the events of the answer into out. The usage comes first.
func (a *Answer) Emit(out Sink) {
	out.Put(Begin(a.ID))
	out.Put(Usage(a.Usage))
	out.Put(Tier(a.ServiceTier))
	for i := range a.Choices {
		a.Choices[i].emit(i, out)
	}
	out.Put(End())
}

func (c *Choice) emit(i int, out Sink) {
	out.Put(Role(i))
	c.emitMember(i, "images", c.Images, out)
	if c.Reasoning != "" {
		out.Put(Reasoning(i, c.Reasoning))
	}
	if c.Text != "" || c.Logprobs != nil {
		text := Text(i, c.Text)
		text.Logprobs = c.Logprobs
		out.Put(text)
	}
	if c.Refusal != "" {
		out.Put(Refusal(i, c.Refusal))
	}
	c.emitMember(i, "thinking_blocks", c.ThinkingBlocks, out)
	c.emitMember(i, "annotations", c.Annotations, out)
	c.emitMember(i, "audio", c.Audio, out)
	for n := range c.Calls {
		call := &c.Calls[n]
		begin := ToolCall(i, n, call.ID, call.Name)
		begin.JSON = call.ExtraContent
		out.Put(begin)
		out.Put(Arguments(i, n, call.Arguments))
	}
	out.Put(Finish(i, c.FinishReason))
}

func (c *Choice) emitMember(i int, name string, value []byte, out Sink) {
	if value != nil {
		out.Put(Member(i, name, value))
	}
}

// Put implements Sink: it adds an event to the answer.
func (a *Answer) Put(e Event) {
	switch e.Kind {
	case KindBegin:
		a.ID, a.Created = e.ID, e.Created
	case KindUsage:
		a.Usage = *e.Usage
	case KindTier:
		a.ServiceTier = e.Text
	case KindRole, KindText, KindReasoning, KindRefusal, KindToolCall, KindArguments, KindMember, KindFinish:
		for len(a.Choices) <= e.Choice {
			a.Choices = append(a.Choices, Choice{})
		}
		a.Choices[e.Choice].put(&e)
	}
}

func (c *Choice) put(e *Event) {
	switch e.Kind {
	case KindText:
		c.Text += e.String()
		if e.Logprobs != nil {
			c.Logprobs = e.Logprobs
		}
	case KindReasoning:
		c.Reasoning += e.String()
	case KindRefusal:
		c.Refusal += e.String()
	case KindToolCall:
		c.Calls = append(c.Calls, Call{ID: e.ID, Name: e.Name, ExtraContent: e.JSON, Function: e.Function})
	case KindArguments:
		if e.Call < len(c.Calls) {
			c.Calls[e.Call].Arguments += e.String()
		}
	case KindMember:
		if m := c.member(e.Name); m != nil {
			*m = e.JSON
		}
	case KindFinish:
		c.FinishReason = e.Text
	}
}

// member returns a pointer to the member with a name, or nil.
func (c *Choice) member(name string) *jsontext.Value {
	switch name {
	case "images":
		return &c.Images
	case "thinking_blocks":
		return &c.ThinkingBlocks
	case "annotations":
		return &c.Annotations
	case "audio":
		return &c.Audio
	}
	return nil
}

// EmitRendered emits a complete answer that is already in the client's dialect.
func EmitRendered(answer []byte, u openai.Usage, out Sink) {
	out.Put(Event{Kind: KindUsage, Covered: true, Usage: &u})
	out.Put(Event{Kind: KindChunk, JSON: answer})
	out.Put(Event{Kind: KindEnd, Covered: true})
}
