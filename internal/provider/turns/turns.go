// Package turns builds of OpenAI's messages the conversation that other dialects demand: the user's and the
// assistant's turns alternate, every call is answered in the very next turn and in the order of the calls, and no text
// is empty. It reads what else messages hold that no codec wants as clients write it: data URIs, and members without a
// place.
//
// OpenAI's messages cannot be mapped one by one. Its clients answer calls late, twice or not
// at all, use an id again, and put system messages anywhere; all of that is dealt with here, once, so that a codec
// only has to write what stands in a turn.
package turns

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// A Role says whose turn it is.
type Role string

// The roles, by the names that most vendors use.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	System    Role = "system" // only with Options.InlineSystem
)

// NotExecuted is what a vendor is told that wants a text in the place of a result that the client left out.
const NotExecuted = "The tool call was not executed."

// Options say what a vendor wants.
type Options struct {
	// InlineSystem leaves a system message in the middle where it stands between a user's turn and the assistant's. All
	// others are hoisted to Conversation.System.
	InlineSystem bool
	// ID returns the id to send for the client's, which the conversation used occurrence-1 times before for another call.
	// nil sends ids as they are.
	ID func(id string, occurrence int) string
	// Name returns the tool's name to send for the client's. nil sends names as they are.
	Name func(name string) string
	// Own are types of parts of the vendor's own, which may stand in messages of any role.
	Own []string
	// Thoughts leaves parts that hold Claude's thinking in Said; elsewhere they are left out.
	Thoughts bool
}

// A Conversation is what the messages say.
type Conversation struct {
	System []Part // of system and developer messages, in order; only text
	Turns  []Turn // those of the user and of the assistant alternate
}

// A Turn is what one side says before it is the other's turn.
type Turn struct {
	Role    Role
	Results []Result // of a User turn: of the calls of the turn before, in their order, one for each
	Parts   []Part   // of a User or System turn: what comes after the results; empty where the client said nothing
	Said    []Said   // of an Assistant turn: its messages, in order, those left out that say nothing
}

// A Part is one part of a message's content. Text is never blank; in System and Said there is nothing else but parts
// of Options.Own and thoughts, and a refusal has become text.
type Part struct {
	openai.Part
	Param string // where it stands: messages[2].content[0]
}

// Said is one message of the assistant's. Message has what is beyond text and calls; its cache_control is for its end.
type Said struct {
	Message *openai.Message
	Parts   []Part
	Calls   []Call
}

// A Call is a call of a tool that the model made.
type Call struct {
	ID, Name  string           // as sent
	Arguments jsontext.Value   // always an object: "" is {}, what is no object is {"_raw": "..."}
	Source    *openai.ToolCall // nil for a legacy function_call
	Param     string           // where it stands: messages[2].tool_calls[0]
}

// A Result is what came of a call.
type Result struct {
	Call        Call
	Parts       []Part // empty where the tool gave nothing
	NotExecuted bool   // the client left the call unanswered; the vendor gets a note in its place
	// CacheControl is the message's, or that of its parts, which then have none.
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

// Asked reports whether a raw member of the client's says more than if it were absent: it is not null and not empty.
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
