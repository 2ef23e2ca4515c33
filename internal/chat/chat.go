// Package chat has what an answer says, event by event, between the codecs of vendors and the dialects of clients. A
// codec puts events into a Sink and knows no client's dialect; what stands behind the Sink knows no vendor's.
//
// An answer of a vendor that speaks the client's dialect may pass almost as it came: its events are marked as covered,
// and the raw form follows them. Who counts or judges what is said reads the events; who writes the answer uses the
// raw form.
package chat

import "github.com/modelgate/modelgate/api/openai"

// Asked is what a request asks for, as far as the reading of its answer depends on it.
type Asked struct {
	Model        string // the name the client knows
	Created      int64  // when the answer was made, in Unix seconds
	IncludeUsage bool   // the client wants the usage of a stream
	// Plain says that raw forms are of no use: of an answer that comes whole, a codec need not tell more than those
	// otherwise.
	Plain bool
}

// A Kind is what an event tells.
type Kind uint8

// The kinds of events, with the members that they have.
const (
	KindBegin     Kind = iota // the answer begins: ID, Created
	KindRole                  // a choice begins, before it says anything
	KindText                  // content: Text or JSON, Logprobs
	KindReasoning             // reasoning: Text or JSON
	KindRefusal               // a refusal: Text or JSON
	KindToolCall              // a call of a tool begins: Call, ID, Name, and the extension extra_content in JSON
	KindArguments             // a fragment of a call's arguments, which need not be JSON by itself: Call, Text or JSON
	KindMember                // another member of what a choice says: Name, its value in JSON
	KindFinish                // a choice ends: Text is OpenAI's finish reason
	// what the answer has used so far: Usage, and the usage as the client is told it in JSON where that says more
	KindUsage
	KindTier // the service tier that the vendor has given, in OpenAI's words: Text
	// the raw form of what the events before it said: a chunk, or an answer, of the client's dialect in JSON
	KindChunk
	KindReceived // likewise, an event of the vendor's stream as it came, with its framing, in JSON
	KindComment  // a part of the vendor's stream that says nothing, as it came, in JSON
	KindEnd      // the answer is complete
	KindFailed   // the answer ends here because of Error
)

// An Event is one thing that an answer says. What is in JSON and Logprobs is valid until Put returns.
type Event struct {
	Kind    Kind
	Covered bool // a raw form has it
	Choice  int
	Call    int // the index of a tool call, counted from 0 within the choice
	// Function says that a call is of the older kind, function_call.
	Function bool
	Created  int64 // in Unix seconds, where the vendor says it
	ID       string
	Name     string
	Text     string
	// JSON is a value as JSON. Of what is said it is a string, which stands in place of Text where it is not nil.
	JSON     []byte
	Logprobs []byte // JSON: an object
	Usage    *openai.Usage
	Error    *openai.Error
}

// A Sink takes the events of one answer, in order.
type Sink interface{ Put(Event) }

// A Writer is a Sink that writes the answer in a client's dialect.
type Writer interface {
	Sink
	// Take returns the bytes written since the last call. They are the caller's until the writer is used again.
	Take() []byte
	// Len returns how many bytes Take would return.
	Len() int
}

// Speaks reports whether an event says something, also that the answer is complete. Vendors announce the role, and
// keep connections alive with comments, before they know whether there will be an answer.
func (e *Event) Speaks() bool {
	switch e.Kind {
	case KindText, KindReasoning, KindRefusal:
		return e.Text != "" || len(e.JSON) > len(`""`) || e.Logprobs != nil
	case KindToolCall, KindArguments, KindFinish, KindEnd:
		return true
	case KindMember:
		return !isEmpty(e.JSON)
	}
	return false
}

// isEmpty reports whether a member says as much as if it were not there.
func isEmpty(value []byte) bool {
	switch string(value) {
	case "null", `""`, "[]", "{}", "false":
		return true
	}
	return len(value) == 0
}

// String returns what a Text, Reasoning, Refusal or Arguments says.
func (e *Event) String() string {
	if e.JSON == nil {
		return e.Text
	}
	return openai.Unquote(e.JSON)
}

// IsRaw reports whether the event is a raw form, which no more than repeats what the events before it said.
func (e *Event) IsRaw() bool {
	return e.Kind == KindChunk || e.Kind == KindReceived || e.Kind == KindComment
}

// IsChunk reports whether the client gets a chunk for the event.
func (e *Event) IsChunk() bool {
	switch e.Kind {
	case KindChunk, KindReceived:
		return true
	case KindText, KindReasoning, KindRefusal, KindToolCall, KindArguments, KindMember, KindFinish:
		return !e.Covered
	}
	return false
}
