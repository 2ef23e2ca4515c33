package openai

import (
	"errors"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// A ChatRequest is a chat completion request that was checked once. It has the body without the data carried in ids,
// the members that every request needs, and the positions of all members. A codec for OpenAI's own dialect can change
// a few members and keep every other byte. It is immutable and safe for concurrent use.
type ChatRequest struct {
	Object

	Model  string
	Stream bool
	// IncludeUsage is stream_options.include_usage.
	IncludeUsage bool
	// Translated means that the client speaks another dialect: the gateway made the request, and must not rely on what
	// OpenAI's own clients know of the model.
	Translated bool

	sent     *Object // nil: it is Object
	carrier  Carrier
	messages int // number of messages
	once     sync.Once
	chat     *Chat
	chatErr  error
}

// ParseChatRequest is the same function of the zero Carrier: nothing that ids carry is accepted.
func ParseChatRequest(body []byte) (*ChatRequest, error) { return Carrier{}.ParseChatRequest(body) }

// ParseChatRequest checks and parses body. It keeps body. The data carried in ids of tool calls is only in
// ToolCall.Carried. An error is an *Error with status 400 that names the wrong member.
func (c Carrier) ParseChatRequest(body []byte) (*ChatRequest, error) {
	r := &ChatRequest{Object: Object{Members: Members{Body: body}}, carrier: c}
	if err := r.check(); err != nil {
		return nil, err
	}
	r.dropCarried()
	return r, nil
}

// Carrier returns what reads the ids of the request's client.
func (r *ChatRequest) Carrier() Carrier { return r.carrier }

// Sent returns the request as the client sent it, including the data carried in ids.
func (r *ChatRequest) Sent() *Object {
	if r.sent != nil {
		return r.sent
	}
	return &r.Object
}

// ChatFor is Chat, with the error of RejectDeviations.
func (r *ChatRequest) ChatFor(own ...string) (*Chat, error) {
	if err := r.RejectDeviations(own...); err != nil {
		return nil, err
	}
	return r.Chat()
}

// Chat returns the decoded request. It is decoded at the first call, because only translating codecs need it, and
// shared: callers must not modify it. Its raw values share memory with the body.
func (r *ChatRequest) Chat() (*Chat, error) {
	r.once.Do(func() { r.chat, r.chatErr = decodeChat(r.Sent().Body, r.messages, r.carrier) })
	return r.chat, r.chatErr
}

func notJSON(err error) *Error {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			param := pointerPath(syntactic.JSONPointer)
			return CodeDuplicateParameter.On(param,
				"Duplicate member '%s' in the JSON body of your request. Send each member once.", param)
		}
		return CodeInvalidJSON.New(
			"We could not parse the JSON body of your request: %v at byte %d. Send a JSON object with content-type application/json.", syntactic.Err, syntactic.ByteOffset)
	}
	return CodeInvalidJSON.New(
		"We could not parse the JSON body of your request. Send a JSON object with content-type application/json.")
}
