package messages

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// conversation builds the turns and the system blocks.
func (e *encoder) conversation() error {
	for _, member := range turns.Unsupported(e.chat) {
		if member != turns.UnsupportedCache && (member != turns.UnsupportedThought || !e.remembers()) {
			e.Drop(member)
		}
	}
	c, err := turns.Build(e.chat.Messages, turns.Options{InlineSystem: e.can.GetInlineSystem(), ID: turns.ID,
		Name: e.names.Use, Thoughts: e.remembers()})
	if err != nil {
		return err
	}
	e.out.System = texts(c.System)
	e.out.Messages = make([]turn, 0, len(c.Turns)+1)
	var thoughts ThoughtReader
	for i := range c.Turns {
		t := &c.Turns[i]
		out := turn{role: string(t.Role)}
		switch t.Role {
		case turns.System:
			out.content = texts(t.Parts)
		case turns.Assistant:
			for j := range t.Said {
				out.content = e.said(out.content, &t.Said[j], &thoughts)
			}
			for n := len(out.content); n > 0 && isThought(out.content[n-1]); n-- { // the vendor refuses one at the end
				out.content = out.content[:n-1]
			}
		default:
			if out.content, err = e.heard(t); err != nil {
				return err
			}
		}
		e.out.Messages = append(e.out.Messages, out)
	}
	e.ending()
	return nil
}

// said appends what one message of the assistant says.
func (e *encoder) said(dst []block, s *turns.Said, thoughts *ThoughtReader) []block {
	begun := len(dst)
	thought := thoughts.Of(s)
	think := func(i int) {
		if i < len(thought) && e.remembers() {
			dst = e.thought(dst, thought[i])
		}
	}
	think(0)
	for i := range s.Parts {
		p := &s.Parts[i]
		if p.Thought == nil {
			dst = append(dst, block{kind: "text", text: p.Text, cacheControl: p.CacheControl})
			continue
		}
		of, signed := thoughts.Part(p)
		if dst = e.thought(dst, of); !signed {
			e.Drop(turns.UnsupportedThought)
		}
	}
	for i, c := range s.Calls {
		if i > 0 {
			think(i)
		}
		dst = append(dst, block{kind: "tool_use", id: c.ID, name: c.Name, input: c.Arguments})
	}
	if last := len(dst) - 1; last >= begun && turns.Asked(s.Message.CacheControl) {
		dst[last].cacheControl = s.Message.CacheControl
	}
	return dst
}

// thought appends thoughts as they came.
func (e *encoder) thought(dst []block, thoughts []Thought) []block {
	for i := range thoughts {
		dst = append(dst, block{signed: thoughts[i].AppendJSON(nil)})
		if thoughts[i].Marked {
			e.Drop(turns.UnsupportedCache)
		}
	}
	return dst
}

// heard returns what the user's turn says: the results of the calls, then everything else.
func (e *encoder) heard(t *turns.Turn) ([]block, error) {
	blocks := make([]block, 0, len(t.Results)+len(t.Parts)+1)
	for i := range t.Results {
		r := &t.Results[i]
		b := block{kind: "tool_result", toolUseID: r.Call.ID, cacheControl: r.CacheControl}
		if r.NotExecuted {
			b.content, b.isError = []block{{kind: "text", text: turns.NotExecuted}}, true
		}
		for _, p := range r.Parts {
			content, err := e.part(&p)
			if err != nil {
				return nil, err
			}
			b.content = append(b.content, content)
		}
		blocks = append(blocks, b)
	}
	for _, p := range t.Parts {
		b, err := e.part(&p)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	if len(blocks) == 0 {
		blocks = append(blocks, filler) // a turn must not be empty
		e.Adjust("messages")
	}
	return blocks, nil
}

// maxMarks is how many marks for the cache the vendor takes.
const maxMarks = 4

// limitMarks leaves as many marks for the cache as the vendor takes: the first, which other conversations share, and
// the last.
func (e *encoder) limitMarks() {
	var marks []*jsontext.Value
	add := func(mark *jsontext.Value) {
		if turns.Asked(*mark) {
			marks = append(marks, mark)
		}
	}
	for i := range e.out.Tools {
		add(&e.out.Tools[i].cacheControl)
	}
	for i := range e.out.System {
		add(&e.out.System[i].cacheControl)
	}
	for i := range e.out.Messages {
		for j := range e.out.Messages[i].content {
			add(&e.out.Messages[i].content[j].cacheControl)
		}
	}
	left := maxMarks
	if e.out.CacheControl != nil {
		left-- // it marks the end
	}
	if len(marks) <= left {
		return
	}
	e.Drop(turns.UnsupportedCache)
	for _, mark := range marks[1 : len(marks)-left+1] {
		*mark = nil
	}
}

// filler stands where the vendor wants something and the client said nothing.
var filler = block{kind: "text", text: "."}

// texts turns parts that hold nothing but text into blocks.
func texts(parts []turns.Part) []block {
	var blocks []block
	for _, p := range parts {
		blocks = append(blocks, block{kind: "text", text: p.Text, cacheControl: p.CacheControl})
	}
	return blocks
}

// part turns a part of a user's message or a tool's result into a block.
func (e *encoder) part(p *turns.Part) (block, error) {
	if p.Type == "text" {
		return block{kind: "text", text: p.Text, cacheControl: p.CacheControl}, nil
	}
	b, err := media(&p.Part, p.Param)
	b.cacheControl = p.CacheControl
	if err == nil && b.source.kind == "url" && !able(e.can.MediaUrls) {
		return block{}, openai.CodeUnsupportedValue.On(p.Param,
			"The provider '%s' does not fetch images and files by URL. Send the content as a base64 data URI.", e.Vendor)
	}
	return b, err
}

// ending makes the conversation end, and be, as the model demands.
func (e *encoder) ending() {
	n := len(e.out.Messages)
	if n == 0 {
		e.out.Messages = []turn{{role: "user", content: []block{filler}}}
		e.Adjust("messages")
		return
	}
	last := &e.out.Messages[n-1]
	switch {
	case last.role != "assistant":
	case !able(e.can.Prefill):
		e.out.Messages = append(e.out.Messages, turn{role: "user", content: []block{{kind: "text", text: "Continue."}}})
	default:
		// The vendor refuses a beginning of the answer that ends in white space.
		if b := &last.content[len(last.content)-1]; b.kind == "text" {
			b.text = strings.TrimRight(b.text, " \t\r\n")
		}
	}
}
