// Package turns builds a conversation from OpenAI's messages in the form that other dialects require: the turns of
// user and assistant alternate, every call is answered in the next turn and in the order of the calls, and no text is
// empty. It also normalises other parts of messages, such as data URIs, and reports members that have no place in a
// conversation.
//
// OpenAI's messages cannot be mapped one by one. Clients answer calls late, twice or not at all, repeat ids, and put
// system messages anywhere. This package handles all of that once, so that a codec only writes turns.
package turns

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// A Role is the side whose turn it is.
type Role string

// The roles, with the names of most vendors.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	System    Role = "system" // only with Options.InlineSystem
)

// NotExecuted is the text for vendors that require a result when the client sent none.
const NotExecuted = "The tool call was not executed."

// Options are the requirements of a vendor.
type Options struct {
	// InlineSystem keeps a system message in the middle as one if it is between a user's turn and the assistant's. All
	// others after the first turn become text of the user: see Marked.
	InlineSystem bool
	// ID returns the id to send for the client's id, which occurrence-1 earlier calls have used. Nil sends ids unchanged.
	ID func(id string, occurrence int) string
	// Name returns the name to send for the client's name of a tool. Nil sends names unchanged.
	Name func(name string) string
	// Own are the types of the vendor's own parts, which may be in messages of any role.
	Own []string
	// Thoughts keeps parts with Claude's thinking in Said; otherwise they are omitted.
	Thoughts bool
}

// A Conversation is the content of the messages.
type Conversation struct {
	System []Part // text of system and developer messages before all others, in order
	Turns  []Turn // turns of the user and of the assistant alternate
}

// A Turn is everything that one side says before the other's turn.
type Turn struct {
	Role    Role
	Results []Result // of a User turn: one for each call of the previous turn, in order
	Parts   []Part   // of a User or System turn: the parts after the results; may be empty
	Said    []Said   // of an Assistant turn: its messages, in order, without empty ones
}

// A Part is one part of a message's content. Text is never blank. System and Said have only text, parts of Options.Own
// and thoughts. A refusal becomes text.
type Part struct {
	openai.Part
	Param string // path: messages[2].content[0]
}

// Said is one message of the assistant. Message has its other members; its cache_control applies to its end.
type Said struct {
	Message *openai.Message
	Parts   []Part
	Calls   []Call
}

// A Call is a call of a tool by the model.
type Call struct {
	ID, Name  string           // as sent
	Arguments jsontext.Value   // always an object: "" becomes {}, any other value {"_raw": "..."}
	Source    *openai.ToolCall // nil for a legacy function_call
	Param     string           // path: messages[2].tool_calls[0]
}

// A Result is the result of a call.
type Result struct {
	Call        Call
	Parts       []Part // may be empty
	NotExecuted bool   // the client sent no result; the vendor gets a note instead
	// CacheControl is the message's own, or taken from its parts, which then have none.
	CacheControl jsontext.Value
}

// Calls returns the calls of an Assistant turn, in order.
func (t *Turn) Calls() []Call {
	var calls []Call
	for i := range t.Said {
		calls = append(calls, t.Said[i].Calls...)
	}
	return calls
}

// Asked reports whether a raw member of the client has a value: it is neither null nor empty.
func Asked(v jsontext.Value) bool {
	switch v.Kind() {
	case 'n':
		return false
	case '{', '[', '"':
		v = bytes.TrimSpace(v)
		return len(v) > 2 && len(bytes.TrimSpace(v[1:len(v)-1])) > 0
	}
	return len(v) > 0
}
