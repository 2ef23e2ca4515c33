package turns

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// A builder adds messages one by one. The user's turn is open until the assistant's next message, or the end.
type builder struct {
	options Options
	out     Conversation
	results []Result         // one for each call of the assistant's last turn
	waiting map[string][]int // indexes of missing results, by the client's id
	rest    []Part           // parts of the user's turn after the results
	open    bool             // the user's turn has begun
	ids     map[string]int   // number of calls with the client's id
}

// Build returns the conversation. It does not modify the messages, but shares their memory. An error is an
// *openai.Error about content that no vendor supports.
func Build(messages []openai.Message, o Options) (*Conversation, error) {
	b := &builder{options: o, ids: map[string]int{}}
	for i := range messages {
		m, param := &messages[i], "messages["+strconv.Itoa(i)+"]"
		var err error
		switch m.Role {
		case "system", "developer":
			err = b.system(m, param, i+1 == len(messages) || messages[i+1].Role == "assistant")
		case "user":
			b.open, b.rest = true, append(b.rest, cacheLast(parts(m, param), m.CacheControl)...)
		case "tool", "function":
			b.result(m, param)
		case "assistant":
			err = b.assistant(m, param)
		}
		if err != nil {
			return nil, err
		}
	}
	if b.open || len(b.results) > 0 {
		b.close()
	}
	return &b.out, nil
}

// system adds a system or developer message. The flag answered means that the assistant's turn is next.
func (b *builder) system(m *openai.Message, param string, answered bool) error {
	texts, err := b.texts(m, param)
	if err != nil || len(texts) == 0 {
		return err
	}
	texts = cacheLast(texts, m.CacheControl)
	switch {
	case !b.open && len(b.results)+len(b.out.Turns) == 0:
		b.out.System = append(b.out.System, texts...)
	case b.options.InlineSystem && b.open && answered:
		b.close()
		b.out.Turns = append(b.out.Turns, Turn{Role: System, Parts: texts})
	default: // see Marked
		for i := range texts {
			texts[i].Text = Marked(texts[i].Text)
		}
		b.open, b.rest = true, append(b.rest, texts...)
	}
	return nil
}

// Marked returns a system message in the middle of a conversation as text of the user, for vendors that have no such
// role there. It must not move to the head: each new one would change the beginning of the prompt, and the vendor
// would find no prefix in its cache. The vendors, and why:
//
//   - Claude before 4.8, at Anthropic, Bedrock and Vertex AI: they refuse the role system among messages.
//   - Claude from 4.8 on takes it between a user's turn and the assistant's (InlineSystem); elsewhere it is text.
//   - Gemini has one system instruction, and no role for others.
//   - Bedrock's Converse has system blocks apart from messages.
//   - Mistral wants the system message first, and refuses one after the assistant's turn.
//   - Cohere takes it between a user's turn and the assistant's (InlineSystem); elsewhere it is text.
//   - Vendors of OpenAI's dialect have the role: the message stays as it is.
func Marked(text string) string { return "<system-message>\n" + text + "\n</system-message>" }

// assistant begins the assistant's turn, or adds to it. A message without text and calls is ignored.
func (b *builder) assistant(m *openai.Message, param string) error {
	said := Said{Message: m}
	var err error
	if said.Parts, err = b.texts(m, param); err != nil {
		return err
	}
	if strings.TrimSpace(m.Refusal) != "" {
		said.Parts = append(said.Parts, Part{openai.Part{Type: "text", Text: m.Refusal}, param + ".refusal"})
	}
	if len(m.ToolCalls) == 0 && m.FunctionCall == nil && !slices.ContainsFunc(said.Parts, Part.speaks) {
		return nil
	}
	if b.open {
		b.close()
	}
	for i := range m.ToolCalls {
		call := &m.ToolCalls[i]
		at := param + ".tool_calls[" + strconv.Itoa(i) + "]"
		if call.Type != "" && call.Type != "function" {
			return openai.CodeUnsupportedValue.On(at+".type",
				"Tool calls of type '%s' are not supported by this model's provider.", call.Type)
		}
		said.Calls = append(said.Calls, b.call(call.ID, call.Function, Call{Source: call, Param: at}))
	}
	if f := m.FunctionCall; f != nil {
		said.Calls = append(said.Calls, b.call(legacyID(f.Name), *f, Call{Param: param + ".function_call"}))
	}
	if n := len(b.out.Turns); n == 0 || b.out.Turns[n-1].Role != Assistant {
		b.out.Turns = append(b.out.Turns, Turn{Role: Assistant})
	}
	last := &b.out.Turns[len(b.out.Turns)-1]
	last.Said = append(last.Said, said)
	return nil
}

// call completes a call, and records that it waits for its result.
func (b *builder) call(id string, f openai.FunctionCall, c Call) Call {
	b.ids[id]++
	c.ID, c.Name, c.Arguments = id, f.Name, Arguments(f.Arguments)
	if b.options.ID != nil {
		c.ID = b.options.ID(id, b.ids[id])
	}
	if b.options.Name != nil {
		c.Name = b.options.Name(f.Name)
	}
	if b.waiting == nil {
		b.waiting = map[string][]int{}
	}
	b.waiting[id] = append(b.waiting[id], len(b.results))
	b.results = append(b.results, Result{Call: c, NotExecuted: true})
	return c
}

// result adds a tool's result. A result without a call in the assistant's last turn becomes text.
func (b *builder) result(m *openai.Message, param string) {
	id := m.ToolCallID
	if m.Role == "function" {
		id = legacyID(m.Name)
	}
	b.open = true
	content := parts(m, param)
	waiting := b.waiting[id]
	if len(waiting) == 0 {
		note := Part{openai.Part{Type: "text", Text: "Tool result (" + id + "):"}, param}
		b.rest = append(append(b.rest, note), cacheLast(content, m.CacheControl)...)
		return
	}
	r := &b.results[waiting[0]]
	b.waiting[id] = waiting[1:]
	r.Parts, r.NotExecuted = content, false
	for i := range content {
		if Asked(content[i].CacheControl) {
			r.CacheControl = content[i].CacheControl
		}
		content[i].CacheControl = nil
	}
	if Asked(m.CacheControl) {
		r.CacheControl = m.CacheControl
	}
}

// close ends the user's turn.
func (b *builder) close() {
	b.out.Turns = append(b.out.Turns, Turn{Role: User, Results: b.results, Parts: b.rest})
	b.results, b.waiting, b.rest, b.open = nil, nil, nil, false
}

// parts returns the parts of a message without blank text.
func parts(m *openai.Message, param string) []Part {
	var out []Part
	for i := range m.Content {
		p := m.Content[i]
		if p.Type == "text" && strings.TrimSpace(p.Text) == "" {
			continue
		}
		if out == nil {
			out = make([]Part, 0, len(m.Content)-i)
		}
		out = append(out, Part{p, param + ".content[" + strconv.Itoa(i) + "]"})
	}
	return out
}

// texts returns the parts of a message that may have only text and the vendor's own parts.
func (b *builder) texts(m *openai.Message, param string) ([]Part, error) {
	out := parts(m, param)
	kept := out[:0]
	for _, p := range out {
		switch {
		case p.Type == "refusal" && m.Role == "assistant":
			p.Type, p.Text, p.Refusal = "text", p.Refusal, ""
		case p.Thought != nil && m.Role == "assistant":
			if b.options.Thoughts {
				kept = append(kept, p)
			}
			continue
		case slices.Contains(b.options.Own, p.Type):
			kept = append(kept, p)
			continue
		case p.Type != "text":
			return nil, openai.CodeUnsupportedValue.On(p.Param+".type",
				"Content of type '%s' is not supported in a message of the role '%s'.", p.Type, m.Role)
		}
		if strings.TrimSpace(p.Text) != "" {
			kept = append(kept, p)
		}
	}
	return kept, nil
}

// speaks reports whether a part is more than a thought.
func (p Part) speaks() bool { return p.Thought == nil }

// cacheLast moves a message's own cache_control to its last part, which has the same meaning.
func cacheLast(parts []Part, cache jsontext.Value) []Part {
	if Asked(cache) && len(parts) > 0 {
		parts[len(parts)-1].CacheControl = cache
	}
	return parts
}

// legacyID returns the id for a function_call, which has none of its own.
func legacyID(name string) string { return "fn:" + name }
