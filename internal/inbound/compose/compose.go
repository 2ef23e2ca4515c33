// Package compose writes JSON member by member, for dialects that make a chat completion of a request.
package compose

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// A Builder appends JSON to Dst. Text and Raw omit what is empty.
type Builder struct{ Dst []byte }

// Begin begins an element of the open array.
func (b *Builder) Begin(open string) {
	if b.Dst[len(b.Dst)-1] != '[' {
		b.Dst = append(b.Dst, ',')
	}
	b.Dst = append(b.Dst, open...)
}

// Member begins a member of the open object, with the beginning of its value.
func (b *Builder) Member(name, open string) {
	if b.Dst[len(b.Dst)-1] != '{' {
		b.Dst = append(b.Dst, ',')
	}
	b.Dst = append(openai.AppendString(b.Dst, name), ':')
	b.Dst = append(b.Dst, open...)
}

// End appends the end of the open members.
func (b *Builder) End(closing string) { b.Dst = append(b.Dst, closing...) }

// String appends a member with a string, also an empty one.
func (b *Builder) String(name, s string) {
	b.Member(name, "")
	b.Dst = openai.AppendString(b.Dst, s)
}

// Text appends a member with a string.
func (b *Builder) Text(name, s string) {
	if s != "" {
		b.String(name, s)
	}
}

// Raw appends a member with a value. Null is nothing.
func (b *Builder) Raw(name string, v jsontext.Value) {
	if len(v) > 0 && v.Kind() != 'n' {
		b.Member(name, "")
		b.Dst = append(b.Dst, v...)
	}
}

// Int appends a member with a number.
func (b *Builder) Int(name string, n int64) {
	b.Member(name, "")
	b.Dst = strconv.AppendInt(b.Dst, n, 10)
}

// IsAsked reports whether a member is more than absent.
func IsAsked(v jsontext.Value) bool {
	switch string(v) {
	case "", "null", "[]", "{}", "false":
		return false
	}
	return true
}

// Error returns the client's error for JSON that cannot be read as a request. At writes a place in the dialect's way.
func Error(err error, at func(jsontext.Pointer) string) error {
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok {
		place := at(wrong.JSONPointer)
		return openai.CodeInvalidType.On(place, "%s: A JSON %s is not valid here.", place,
			kind(wrong.JSONKind))
	}
	if wrong, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			place := at(wrong.JSONPointer)
			return openai.CodeDuplicateParameter.On(place, "%s: The member occurs twice.", place)
		}
		return openai.CodeInvalidJSON.New("The request body is not valid JSON: %v at byte %d.", wrong.Err,
			wrong.ByteOffset)
	}
	return openai.CodeInvalidJSON.New("The request body is not valid JSON.")
}

func kind(k jsontext.Kind) string {
	switch k {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case '0':
		return "number"
	case 'n':
		return "null"
	}
	return "boolean"
}

// Dotted writes a place with dots: messages.0.content.
func Dotted(p jsontext.Pointer) string {
	var at []byte
	for token := range p.Tokens() {
		if len(at) > 0 {
			at = append(at, '.')
		}
		at = append(at, token...)
	}
	return string(at)
}

// Bracketed writes a place as OpenAI does: input[0].content.
func Bracketed(p jsontext.Pointer) string {
	at := ""
	for token := range p.Tokens() {
		switch _, err := strconv.Atoi(token); {
		case err == nil:
			at += fmt.Sprintf("[%s]", token)
		case at == "":
			at = token
		default:
			at += "." + token
		}
	}
	return at
}

// Chat parses a chat completion that was made of a request of another dialect.
func Chat(by openai.Carrier, body []byte) (*openai.ChatRequest, error) {
	r, err := by.ParseChatRequest(body)
	if err != nil {
		return nil, err
	}
	r.Translated = true
	return r, nil
}

// Call appends a call of a function to the open list of tool_calls.
func (b *Builder) Call(id, name, arguments string) {
	b.Begin("{")
	b.String("id", id)
	b.Member("type", `"function","function":{`)
	b.String("name", name)
	b.String("arguments", arguments)
	b.End("}}")
}
