// Package chat defines the events of an answer, which connect the codecs of vendors with the dialects of clients. A
// codec puts events into a Sink and does not know the client's dialect. The code behind the Sink does not know the
// vendor's dialect.
//
// If the vendor speaks the client's dialect, the answer can pass almost unchanged: the codec marks its events as
// covered and puts the raw form after them. Code that counts or judges content reads the events. Code that writes the
// answer uses the raw form.
package chat

import (
	"bytes"

	"github.com/modelgate/modelgate/api/openai"
)

// Asked has the parameters of a request that the decoding of its answer depends on.
type Asked struct {
	Model        string // as the client knows it
	Created      int64  // creation time of the answer, in Unix seconds
	IncludeUsage bool   // the client wants the usage at the end of a stream
	// Plain means that nobody uses raw forms. For a complete answer, a codec then emits all events. Otherwise it may emit
	// only the raw form and the usage.
	Plain bool
	// Echo is the body of the request, for dialects whose answers repeat parts of it. Others leave it out.
	Echo []byte
	// Carrier writes data that must come back into the ids of calls. The zero value writes none.
	Carrier openai.Carrier
}

// A Kind is the kind of an event.
type Kind uint8

// The kinds of events, with the members that they use.
const (
	KindBegin     Kind = iota // the answer begins: ID, Created
	KindRole                  // a choice begins, still without content
	KindText                  // content: Text or JSON, Logprobs
	KindReasoning             // reasoning: Text or JSON
	KindRefusal               // a refusal: Text or JSON
	KindToolCall              // a call of a tool begins: Call, ID, Name, and the extension extra_content as JSON
	KindArguments             // a fragment of a call's arguments, which may be incomplete JSON: Call, Text or JSON
	KindMember                // another member of a choice: Name, and its value as JSON
	// the reasoning so far is signed, or has a part that only the vendor can read: JSON is its block of thinking_blocks.
	// The member with all blocks comes at the end
	KindSigned
	KindFinish // a choice ends: Text is OpenAI's finish reason
	// the usage so far: Usage, and JSON if the client's usage has more members
	KindUsage
	KindTier // the service tier, with OpenAI's name: Text
	// the raw form of the events before it: a chunk or an answer in the client's dialect, as JSON
	KindChunk
	KindRawEvent // also a raw form: an event of the vendor's stream with its framing, as it came, in JSON
	KindComment  // a part of the vendor's stream without content, as it came, in JSON
	// also a raw form, in the client's dialect if that is not OpenAI's: an answer, or events with their framing, in JSON.
	// The first one is empty and stands before all other events
	KindNative
	KindEnd   // the answer is complete
	KindError // the answer fails with Error
)

// An Event is one event of an answer. JSON and Logprobs are valid until Put returns.
type Event struct {
	Kind    Kind
	Covered bool // a raw form contains it
	Choice  int
	Call    int // the index of a tool call, counted from 0 within the choice
	// Function marks a call of the deprecated kind, function_call.
	Function bool
	Created  int64 // in Unix seconds, if the vendor reports it
	ID       string
	Name     string
	Text     string
	// JSON is a value as JSON. For content it is a JSON string, which replaces Text if it is not nil.
	JSON     []byte
	Logprobs []byte // JSON: an object
	Usage    *openai.Usage
	Error    *openai.Error
}

// A Sink receives the events of one answer, in order.
type Sink interface{ Put(Event) }

// A Writer is a Sink that writes the answer in a client's dialect.
type Writer interface {
	Sink
	// Take returns the bytes written since the last call. They are valid until the writer is used again.
	Take() []byte
	// Len returns the number of bytes that Take would return.
	Len() int
}

// HasContent reports whether an event has content or completes the answer. Vendors announce the role, and keep
// connections alive with comments, before they know whether there will be an answer.
func (e *Event) HasContent() bool {
	switch e.Kind {
	case KindText, KindReasoning, KindRefusal:
		return e.Text != "" || len(e.JSON) > len(`""`) || e.Logprobs != nil
	case KindToolCall, KindArguments, KindFinish, KindEnd:
		return true
	case KindMember:
		return !isEmpty(e.JSON)
	case KindNative: // tools that the vendor runs are content, and have no other event
		return bytes.HasPrefix(e.JSON, []byte("event: content_block"))
	}
	return false
}

// isEmpty reports whether a member means the same as an absent one.
func isEmpty(value []byte) bool {
	switch string(value) {
	case "null", `""`, "[]", "{}", "false":
		return true
	}
	return len(value) == 0
}

// String returns the text of a Text, Reasoning, Refusal or Arguments event.
func (e *Event) String() string {
	if e.JSON == nil {
		return e.Text
	}
	return openai.Unquote(e.JSON)
}

// IsRaw reports whether the event is a raw form, which only repeats the events before it.
func (e *Event) IsRaw() bool {
	return e.Kind == KindChunk || e.Kind == KindRawEvent || e.Kind == KindComment ||
		e.Kind == KindNative
}

// IsChunk reports whether the client gets a chunk for the event.
func (e *Event) IsChunk() bool {
	switch e.Kind {
	case KindChunk, KindRawEvent, KindNative:
		return true
	case KindText, KindReasoning, KindRefusal, KindToolCall, KindArguments, KindMember, KindFinish:
		return !e.Covered
	}
	return false
}
