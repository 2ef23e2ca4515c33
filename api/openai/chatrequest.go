package openai

import (
	"errors"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// A ChatRequest is a chat completion request that has been checked once: the body, without what ids carry, what every
// request needs of it, and where its members stand, so that a codec for OpenAI's own dialect changes a few of them and
// leaves every other byte. It is immutable and safe for concurrent use.
type ChatRequest struct {
	Object

	Model  string
	Stream bool
	// IncludeUsage is stream_options.include_usage.
	IncludeUsage bool

	sent     Object
	messages int // how many there are
	once     sync.Once
	chat     *Chat
	chatErr  error
}

// ParseChatRequest checks body and returns what it holds. It keeps body. What ids of tool calls carry (see CarryID) is
// in ToolCall.Carried alone. An error is an *Error with status 400 that names the member at fault.
func ParseChatRequest(body []byte) (*ChatRequest, error) {
	r := &ChatRequest{Object: Object{Body: body}}
	if err := r.check(); err != nil {
		return nil, err
	}
	r.sent = r.Object
	r.dropCarried()
	return r, nil
}

// Sent returns the request as the client sent it, with what ids carry: Edit it to make a request from it.
func (r *ChatRequest) Sent() *Object { return &r.sent }

// Chat returns the whole request, typed. It is decoded at the first call, for only codecs that translate need it, and
// shared: callers must not modify it. Its raw values share memory with the body.
func (r *ChatRequest) Chat() (*Chat, error) {
	r.once.Do(func() { r.chat, r.chatErr = decodeChat(r.sent.Body, r.messages) })
	return r.chat, r.chatErr
}

func notJSON(err error) *Error {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			param := pointerPath(syntactic.JSONPointer)
			return BadRequest(param, CodeDuplicateParameter,
				"Duplicate member '%s' in the JSON body of your request. Send each member once.", param)
		}
		return BadRequest("", CodeInvalidJSON,
			"We could not parse the JSON body of your request: %v at byte %d. Send a JSON object with content-type application/json.", syntactic.Err, syntactic.ByteOffset)
	}
	return BadRequest("", CodeInvalidJSON,
		"We could not parse the JSON body of your request. Send a JSON object with content-type application/json.")
}
