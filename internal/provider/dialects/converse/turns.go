package converse

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/provider/forms"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// Texts that stand where the vendor wants some and the client has none.
const (
	filler      = "." // white space is refused
	noContent   = "(no content)"
	seeDocument = "See the attached documents."
	seeFile     = "See the files after the results."
	proceed     = "Continue."
)

// conversation builds the turns and the system blocks.
func (e *encoder) conversation() error {
	c, err := turns.Build(e.chat.Messages, turns.Options{ID: e.callID, Name: e.names.Use, Thoughts: e.remembers()})
	if err != nil {
		return err
	}
	for _, member := range turns.Unsupported(e.chat) {
		if member != turns.UnsupportedCache && (member != turns.UnsupportedThought || !e.remembers()) {
			e.Drop(member)
		}
	}
	if e.out.System, err = e.blocks(c.System); err != nil {
		return err
	}
	e.out.Messages = make([]message, 0, len(c.Turns)+1)
	var thoughts messages.ThoughtReader
	for i := range c.Turns {
		t := &c.Turns[i]
		if t.Role == turns.Assistant {
			e.assistantTurn(t, &thoughts)
		} else if err := e.userTurn(t); err != nil {
			return err
		}
	}
	e.ends()
	if v := e.body.Get("cache_control"); turns.Asked(v) {
		last := &e.out.Messages[len(e.out.Messages)-1]
		last.Content = e.cached(last.Content, v)
	}
	return nil
}

// callID returns the id that is sent for a call.
func (e *encoder) callID(id string, occurrence int) string {
	id = turns.ID(id, occurrence)
	if !e.family.shortIDs {
		return id
	}
	return forms.Nine().Fit(id)
}

// say adds a message.
func (e *encoder) say(role turns.Role, content []block) {
	e.out.Messages = append(e.out.Messages, message{Role: string(role), Content: content})
}

func (e *encoder) userTurn(t *turns.Turn) error {
	var results, rest []block
	for i := range t.Results {
		r := &t.Results[i]
		within, beside, err := e.result(r)
		if err != nil {
			return err
		}
		results, rest = e.cached(append(results, within), r.CacheControl), append(rest, beside...)
	}
	said, err := e.blocks(t.Parts)
	if err != nil {
		return err
	}
	if rest == nil {
		rest = said
	} else {
		rest = append(rest, said...)
	}
	if slices.ContainsFunc(rest, func(b block) bool { return b.Document != nil }) &&
		!slices.ContainsFunc(rest, func(b block) bool { return b.Text != "" }) {
		rest = slices.Insert(rest, 0, block{Text: seeDocument}) // the vendor wants a text beside documents
	}
	apart := e.family.resultsAlone || e.family.noFilesBesideResults &&
		slices.ContainsFunc(rest, func(b block) bool { return b.isFile() })
	switch {
	case len(results) > 0 && len(rest) > 0 && apart:
		e.say(turns.User, results)
		e.say(turns.Assistant, []block{{Text: filler}}) // between two turns of one side, which the vendor would join again
		e.say(turns.User, rest)
	case len(results)+len(rest) == 0:
		e.Adjust("messages")
		e.say(turns.User, []block{{Text: filler}})
	case len(results) == 0:
		e.say(turns.User, rest)
	default:
		e.say(turns.User, append(results, rest...))
	}
	return nil
}

// result returns the block of a tool's result, and what the model does not take within one.
func (e *encoder) result(r *turns.Result) (within block, beside []block, err error) {
	out := &toolResult{ToolUseID: r.Call.ID}
	within.ToolResult = out
	if r.NotExecuted {
		out.Content = []block{{Text: turns.NotExecuted}}
		if !e.family.noStatus {
			out.Status = "error"
		}
		return within, nil, nil
	}
	content, err := e.blocks(r.Parts)
	for _, b := range content {
		if b.Image != nil && !e.family.resultImages || b.Document != nil && !e.family.resultDocuments || b.Audio != nil {
			beside = append(beside, b)
		} else {
			out.Content = append(out.Content, b)
		}
	}
	switch {
	case len(beside) > 0:
		out.Content = append(out.Content, block{Text: seeFile})
	case len(out.Content) == 0:
		out.Content = []block{{Text: noContent}}
	}
	return within, beside, err
}

// assistantTurn writes the assistant's turn, each thought where it stood: at the beginning or before the call that it
// led to.
func (e *encoder) assistantTurn(t *turns.Turn, thoughts *messages.ThoughtReader) {
	var content []block
	for i := range t.Said {
		said := &t.Said[i]
		var before [][]messages.Thought
		if e.remembers() {
			before = thoughts.Of(said)
		}
		if len(before) > 0 {
			content = e.thought(content, before[0])
		}
		for j := range said.Parts {
			p := &said.Parts[j]
			if p.Thought != nil {
				of, signed := thoughts.Part(p)
				if content = e.thought(content, of); !signed {
					e.Drop(turns.UnsupportedThought)
				}
				continue
			}
			content = e.cached(append(content, block{Text: p.Text}), p.CacheControl)
		}
		for j := range said.Calls {
			c := &said.Calls[j]
			if j > 0 && j < len(before) {
				content = e.thought(content, before[j])
			}
			content = append(content, block{ToolUse: &toolUseBlock{c.ID, c.Name, c.Arguments}})
		}
		content = e.cached(content, said.Message.CacheControl)
	}
	for n := len(content); n > 0 && content[n-1].ReasoningContent != nil; n-- { // Claude refuses one at the end
		content = content[:n-1]
	}
	e.say(turns.Assistant, content)
}

// remembers reports whether the model takes the thoughts of earlier answers back. Those that bind thoughts to what
// stands before them refuse what stock clients send, which lacks the thoughts of answers without calls.
func (e *encoder) remembers() bool {
	return e.family.effort == effortThinking && e.can.GetThinking() != configv1.Thinking_NEVER &&
		!e.can.GetBoundThinking()
}

// maxCachePoints is how many the vendor takes.
const maxCachePoints = 4

// caching reports whether a cache point can be added where the client marks what comes before as worth caching.
func (e *encoder) caching(able bool, mark jsontext.Value) bool {
	if !turns.Asked(mark) {
		return false
	}
	if !able || e.cachePoints == maxCachePoints {
		e.Drop("cache_control")
		return false
	}
	e.cachePoints++
	return true
}

// cached adds a cache point. One must not follow a document or a video, so it goes before those; nor may two follow
// each other.
func (e *encoder) cached(blocks []block, mark jsontext.Value) []block {
	if !e.caching(e.family.caches, mark) {
		return blocks
	}
	at := len(blocks)
	for at > 0 && blocks[at-1].isFile() {
		at--
	}
	if at == 0 {
		e.Drop("cache_control")
		return blocks
	}
	if blocks[at-1].CachePoint != nil {
		return blocks
	}
	return slices.Insert(blocks, at, block{CachePoint: newCachePoint(mark)})
}

// newCachePoint reads {"type":"ephemeral","ttl":"1h"}, which is Anthropic's form.
func newCachePoint(mark jsontext.Value) *cachePoint {
	p := &cachePoint{Type: "default"}
	if ttl := gjson.GetBytes(mark, "ttl").String(); ttl == "5m" || ttl == "1h" {
		p.TTL = ttl
	}
	return p
}

// ends makes the conversation begin and end as the model demands.
func (e *encoder) ends() {
	if len(e.out.Messages) == 0 {
		e.Adjust("messages")
		e.say(turns.User, []block{{Text: filler}})
	}
	if e.out.Messages[0].Role != string(turns.User) && !e.family.assistantFirst {
		e.out.Messages = slices.Insert(e.out.Messages, 0,
			message{Role: string(turns.User), Content: []block{{Text: filler}}})
	}
	last := &e.out.Messages[len(e.out.Messages)-1]
	if last.Role == string(turns.User) {
		return
	}
	if !e.can.GetPrefill() {
		e.say(turns.User, []block{{Text: proceed}})
		return
	}
	// The vendor refuses a beginning of the answer that ends in white space.
	if b := &last.Content[len(last.Content)-1]; b.Text != "" {
		b.Text = strings.TrimRight(b.Text, " \t\r\n")
	}
}
