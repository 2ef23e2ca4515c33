package openai

import (
	"errors"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A ChatRequest is a chat completion request that has been checked once: the body as the client sent it, what every
// request needs of it, and where its members stand, so that a codec for OpenAI's own dialect changes a few of them and
// leaves every other byte. It is immutable and safe for concurrent use.
type ChatRequest struct {
	Object

	Model  string
	Stream bool
	// IncludeUsage is stream_options.include_usage.
	IncludeUsage bool

	full func() (*Chat, error)
}

// ParseChatRequest checks body and returns what it holds. It keeps body. An error is an *Error with status 400 that names
// the member at fault.
func ParseChatRequest(body []byte) (*ChatRequest, error) {
	r := &ChatRequest{Object: Object{Body: body}}
	if err := r.check(); err != nil {
		return nil, err
	}
	r.full = sync.OnceValues(func() (*Chat, error) {
		c := new(Chat)
		if err := json.Unmarshal(body, c); err != nil {
			return nil, typeError(err)
		}
		return c, nil
	})
	return r, nil
}

// Chat returns the whole request, typed. It is decoded at the first call, for only codecs that translate need it, and
// shared: callers must not modify it.
func (r *ChatRequest) Chat() (*Chat, error) { return r.full() }

// typeError turns a decoder's error into the client's.
func typeError(err error) *Error {
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		param := pointerPath(semantic.JSONPointer)
		return BadRequest(param, "invalid_type", "Invalid type for '%s': got %s instead.", param, kindName(semantic.JSONKind))
	}
	return notJSON(err)
}

func notJSON(err error) *Error {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			param := pointerPath(syntactic.JSONPointer)
			return BadRequest(param, "duplicate_parameter", "Duplicate member '%s' in the JSON body of your request. Send each member once.", param)
		}
		return BadRequest("", "invalid_json", "We could not parse the JSON body of your request: %v at byte %d. Send a JSON object with content-type application/json.", syntactic.Err, syntactic.ByteOffset)
	}
	return BadRequest("", "invalid_json", "We could not parse the JSON body of your request. Send a JSON object with content-type application/json.")
}
