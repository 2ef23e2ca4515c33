package messages

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// A Thought is a block of thinking that Claude signed, or that it gave encrypted. If the model goes on after a
// call, the blocks before the call must come back as they were. A client that knows of them echoes thinking_blocks;
// with any other they travel in the id of the call that follows them.
type Thought struct {
	Text, Signature string
	Redacted        string // the whole block, encrypted; then there is no text and no signature

	// Marked says that the client marked it for the cache, which the vendor takes of no thought.
	Marked bool

	raw jsontext.Value // as it came, if it came as JSON
}

// AppendJSON appends the block in the Messages dialect, which is also that of the extension thinking_blocks.
func (t *Thought) AppendJSON(dst []byte) []byte {
	switch {
	case t.raw != nil:
		return append(dst, t.raw...)
	case t.Redacted != "":
		dst = append(dst, `{"type":"redacted_thinking","data":`...)
		dst = openai.AppendString(dst, t.Redacted)
	default:
		dst = append(dst, `{"type":"thinking","thinking":`...)
		dst = openai.AppendString(dst, t.Text)
		dst = append(dst, `,"signature":`...)
		dst = openai.AppendString(dst, t.Signature)
	}
	return append(dst, '}')
}

// key tells thoughts apart.
func (t *Thought) key() string { return t.Signature + "\n" + t.Redacted }

// AppendThoughts appends the blocks as an array: the value of thinking_blocks.
func AppendThoughts(dst []byte, thoughts []Thought) []byte {
	dst = append(dst, '[')
	for i := range thoughts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = thoughts[i].AppendJSON(dst)
	}
	return append(dst, ']')
}

// CarryThoughts returns the id of a call with the thoughts that came since the call before.
func CarryThoughts(by openai.Carrier, id string, thoughts []Thought) string {
	if len(thoughts) == 0 {
		return id
	}
	return by.Carry(id, append(AppendThoughts([]byte(`{"messages":`), thoughts), '}'))
}

// carriedThoughts reads what CarryThoughts wrote. What others wrote is nothing.
func carriedThoughts(data []byte) []Thought {
	var v struct {
		Messages jsontext.Value `json:"messages"`
	}
	if len(data) == 0 || json.Unmarshal(data, &v) != nil {
		return nil
	}
	return readThoughts(v.Messages)
}

// readThoughts reads an array of blocks. Those that are not signed are no thoughts of Claude's, and the vendor would
// refuse them.
func readThoughts(blocks jsontext.Value) []Thought {
	var out []Thought
	for _, raw := range schema.Elements(blocks) {
		if t, ok := readThought(raw); ok {
			out = append(out, t)
		}
	}
	return out
}

func readThought(raw jsontext.Value) (Thought, bool) {
	var b struct {
		Type      string `json:"type"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
		Data      string `json:"data"`

		CacheControl jsontext.Value `json:"cache_control"`
	}
	if json.Unmarshal(raw, &b) != nil {
		return Thought{}, false
	}
	t := Thought{Marked: turns.Asked(b.CacheControl)}
	if b.CacheControl == nil {
		t.raw = raw
	}
	switch {
	case b.Type == "thinking" && b.Signature != "":
		t.Text, t.Signature = b.Thinking, b.Signature
	case b.Type == "redacted_thinking" && b.Data != "":
		t.Redacted = b.Data
	default:
		return Thought{}, false
	}
	return t, true
}

// A ThoughtReader finds the thoughts in the messages of one conversation, each once. The zero value is ready to use.
type ThoughtReader struct{ seen map[string]bool }

// Of returns what comes before each call of a message; the first element is what comes before everything else, also in
// a message without calls. What the client echoes counts more than what ids carry. Echoed blocks that are the carried
// ones stand where they stood, before their calls.
func (r *ThoughtReader) Of(s *turns.Said) [][]Thought {
	out := make([][]Thought, 0, max(1, len(s.Calls)))
	var carried []Thought
	for _, c := range s.Calls {
		var thoughts []Thought
		if c.Source != nil {
			thoughts = carriedThoughts(c.Source.Carried)
		}
		out, carried = append(out, thoughts), append(carried, thoughts...)
	}
	echoed := readThoughts(s.Message.ThinkingBlocks)
	if len(echoed) > 0 && !slices.EqualFunc(echoed, carried, func(a, b Thought) bool { return a.key() == b.key() }) {
		out = [][]Thought{echoed}
	}
	for i := range out {
		out[i] = slices.DeleteFunc(out[i], r.again)
	}
	return out
}

// Part reads a part of a message's content that holds a thought. A thought that was seen before gives none, and
// neither does an unsigned one. For that, signed is false.
func (r *ThoughtReader) Part(p *turns.Part) (thoughts []Thought, signed bool) {
	t, signed := readThought(p.Thought)
	if !signed || r.again(t) {
		return nil, signed
	}
	return []Thought{t}, true
}

// again reports whether a thought was seen before, and notes it.
func (r *ThoughtReader) again(t Thought) bool {
	if r.seen[t.key()] {
		return true
	}
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[t.key()] = true
	return false
}
