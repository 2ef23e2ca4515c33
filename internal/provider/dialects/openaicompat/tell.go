package openaicompat

import (
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

// The events of a chunk come before the chunk itself, for sinks that do not read it.

// covered marks an event whose content is also in a raw form.
func covered(e chat.Event) chat.Event {
	e.Covered = true
	return e
}

// tellBeginning tells that the answer has begun, with an id as JSON.
func tellBeginning(id string, created []byte, out chat.Sink) {
	e := covered(chat.Begin(openai.Unquote([]byte(id))))
	e.Created, _ = strconv.ParseInt(string(created), 10, 64) // 0 if the vendor says nothing that can be read
	out.Put(e)
}

// tellReceived tells what the chunk at hand says, which passes as it came.
func (s *stream) tellReceived(out chat.Sink) {
	r := &s.read
	if !s.passed.begun {
		tellBeginning(idOf(r, s.shape), r.created.value(r.data), out)
	}
	for position := range r.choices {
		c := &r.choices[position]
		index := c.indexOr(position)
		if c.data == nil || index < 0 {
			continue
		}
		c.tell(s.shape, index, c.said.calls, out)
		if isText(c.reason) {
			out.Put(covered(chat.Finish(index, openai.Unquote(c.reason))))
		}
	}
}

// tell tells what a choice says. The calls are an array, or nothing.
func (c *choice) tell(s *shape, index int, calls []byte, out chat.Sink) {
	if s.legacy {
		tellText(chat.KindText, index, c.text, c.logprobs, out)
		return
	}
	said := &c.said
	tellText(chat.KindReasoning, index, said.reasoning, nil, out)
	tellText(chat.KindText, index, said.content, c.logprobs, out)
	tellText(chat.KindRefusal, index, said.refusal, nil, out)
	tellCalls(calls, index, out)
	if said.others {
		tellOthers(said, index, out)
	}
}

// tellText tells a piece of text, as JSON, and the log probabilities of its tokens if there are any.
func tellText(kind chat.Kind, index int, text, logprobs []byte, out chat.Sink) {
	k := kindOf(logprobs)
	likely := k == '{' || k == '-' || k >= '0' && k <= '9'
	if !isText(text) && !likely {
		return
	}
	e := chat.Event{Kind: kind, Covered: true, Choice: index, JSON: text}
	if likely {
		e.Logprobs = appendLogprobs(nil, logprobs, text)
	}
	out.Put(e)
}

// tellCalls tells the elements of an array of calls.
func tellCalls(calls []byte, index int, out chat.Sink) {
	position := 0
	eachElement(calls, func(data []byte) {
		c := readCall(data)
		tellCall(&c, index, (&choice{index: c.index}).indexOr(position), out)
		position++
	})
}

func tellCall(c *call, index, number int, out chat.Sink) {
	if isText(c.name) {
		e := covered(chat.ToolCall(index, number, "", openai.Unquote(c.name)))
		if isText(c.id) {
			e.ID = openai.Unquote(c.id)
		}
		out.Put(e)
	}
	if isText(c.given) {
		out.Put(chat.Event{Kind: chat.KindArguments, Covered: true, Choice: index, Call: number, JSON: c.given})
	}
}

// tellOthers sends the members of a choice that have no events of their own. Complete lists are sent at once.
func tellOthers(said *said, index int, out chat.Sink) {
	eachMember(said.data, func(name, value []byte) {
		switch string(name) {
		case "role", "content", "refusal", "reasoning_content", "reasoning", "tool_calls":
			return
		case "function_call":
			if kindOf(value) == '{' {
				c := readCall(append(append([]byte(`{"function":`), value...), '}'))
				tellCall(&c, index, 0, out)
			}
			return
		case "thinking_blocks":
			tellSigned(value, index, out)
		}
		if !said.listed || !isHeld(value) {
			out.Put(covered(chat.Member(index, string(name), value)))
		}
	})
}

// tell tells an answer, and before it what it says where anybody needs that.
func (n *normaliser) tell(u openai.Usage, answer []byte, out chat.Sink) {
	if n.tells {
		tellBeginning(idOf(&n.reading, n.shape), n.created.value(n.data), out)
		for i := range n.reading.choices {
			if c := &n.reading.choices[i]; c.data != nil {
				n.tellChoice(c, max(0, c.indexOr(i)), out)
			}
		}
	}
	chat.EmitRendered(answer, u, out)
}

func (n *normaliser) tellChoice(c *choice, index int, out chat.Sink) {
	out.Put(covered(chat.Role(index)))
	calls, reason := c.said.calls, n.dialect.finishReason(c.reason)
	if !n.asReceived {
		const name = `,"tool_calls":`
		rendered := n.appendCalls(nil, &c.said, index)
		calls = rendered[min(len(name), len(rendered)):]
		reason = settle(reason, len(calls) > 0, c.said.functionCall != nil)
	}
	c.tell(n.shape, index, calls, out)
	n.tellLists(&c.said, index, out)
	out.Put(covered(chat.Finish(index, reason)))
}

// tellLists reports the lists that a stream would give whole at its end, and what a search has found.
func (n *normaliser) tellLists(s *said, index int, out chat.Sink) {
	if s.listed {
		eachMember(s.data, func(name, value []byte) {
			if string(name) != "tool_calls" && isHeld(value) {
				out.Put(covered(chat.Member(index, string(name), value)))
			}
		})
	}
	if n.found != nil && !s.annotated {
		out.Put(covered(chat.Member(index, "annotations", n.found)))
	}
}

// tellSigned sends the blocks of Claude's thinking that the vendor needs back, as they come. The list of all blocks
// is sent at its end.
func tellSigned(blocks []byte, index int, out chat.Sink) {
	eachElement(blocks, func(block []byte) {
		if isOpaque(block) {
			out.Put(covered(chat.Signed(index, block)))
		}
	})
}
