package openai

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// checkMessages reads the messages array from the decoder, without copying what it holds.
func checkMessages(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != nil {
		return notJSON(err)
	}
	n := 0
	for ; dec.PeekKind() != ']'; n++ {
		if k := dec.PeekKind(); k != '{' {
			if _, err := dec.ReadValue(); err != nil {
				return notJSON(err)
			}
			return wrongType(fmt.Sprintf("messages[%d]", n), "an object", k)
		}
		if err := checkMessage(dec, n); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return notJSON(err)
	}
	if n == 0 {
		return BadRequest("messages", "empty_array", "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	return nil
}

// messageFacts is what is known of a message once it was read.
type messageFacts struct {
	role       string
	hasContent bool // there is content that is not null
	calls      bool // there are tool calls, a function call, a refusal or audio in its place
	toolCallID bool
}

func checkMessage(dec *jsontext.Decoder, n int) error {
	if _, err := dec.ReadToken(); err != nil {
		return notJSON(err)
	}
	var f messageFacts
	for dec.PeekKind() != '}' {
		quoted, err := dec.ReadValue()
		if err != nil {
			return notJSON(err)
		}
		name := memberName(quoted)
		if name == "content" && dec.PeekKind() == '[' {
			f.hasContent = true
			if err := checkParts(dec, n); err != nil {
				return err
			}
			continue
		}
		v, err := dec.ReadValue()
		if err != nil {
			return notJSON(err)
		}
		if err := f.member(n, name, v); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return notJSON(err)
	}
	return f.check(n)
}

func (f *messageFacts) member(n int, name string, v jsontext.Value) error {
	k := v.Kind()
	if k == 'n' {
		return nil
	}
	switch name {
	case "role":
		if k != '"' {
			return wrongType(fmt.Sprintf("messages[%d].role", n), "a string", k)
		}
		f.role = memberName(v)
	case "content":
		if k != '"' {
			return wrongType(fmt.Sprintf("messages[%d].content", n), "a string or an array of objects", k)
		}
		f.hasContent = true
	case "tool_calls":
		f.calls = true
		return arrayOf("an object", '{')(fmt.Sprintf("messages[%d].tool_calls", n), v)
	case "function_call", "refusal", "audio":
		f.calls = true
	case "tool_call_id":
		f.toolCallID = true
		if k != '"' {
			return wrongType(fmt.Sprintf("messages[%d].tool_call_id", n), "a string", k)
		}
	case "name":
		if k != '"' {
			return wrongType(fmt.Sprintf("messages[%d].name", n), "a string", k)
		}
	}
	return nil
}

func (f *messageFacts) check(n int) error {
	switch f.role {
	case "":
		return missing(fmt.Sprintf("messages[%d].role", n))
	case "assistant":
		if !f.hasContent && !f.calls {
			return missing(fmt.Sprintf("messages[%d].content", n))
		}
	case "tool":
		if !f.toolCallID {
			return missing(fmt.Sprintf("messages[%d].tool_call_id", n))
		}
		fallthrough
	case "user", "system", "developer", "function":
		if !f.hasContent && f.role != "function" {
			return missing(fmt.Sprintf("messages[%d].content", n))
		}
	default:
		return BadRequest(fmt.Sprintf("messages[%d].role", n), "invalid_value",
			"Invalid value: '%s'. Supported values are: 'system', 'developer', 'user', 'assistant', 'tool', and 'function'.", f.role)
	}
	return nil
}

func checkParts(dec *jsontext.Decoder, n int) error {
	if _, err := dec.ReadToken(); err != nil {
		return notJSON(err)
	}
	for i := 0; dec.PeekKind() != ']'; i++ {
		v, err := dec.ReadValue()
		if err != nil {
			return notJSON(err)
		}
		if v.Kind() != '{' {
			return wrongType(fmt.Sprintf("messages[%d].content[%d]", n, i), "an object", v.Kind())
		}
		if err := checkPart(v, n, i); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return notJSON(err)
	}
	return nil
}

func checkPart(v jsontext.Value, n, i int) error {
	typ := ""
	members := map[string]jsontext.Kind{}
	err := eachMember(v, func(name string, v jsontext.Value) error {
		if name == "type" && v.Kind() == '"' {
			typ = memberName(v)
		}
		members[name] = v.Kind()
		return nil
	})
	if err != nil {
		return err
	}
	param := fmt.Sprintf("messages[%d].content[%d]", n, i)
	want := partMembers[typ]
	switch {
	case typ == "":
		return missing(param + ".type")
	case want.name == "": // a part of a provider's own
		return nil
	case members[want.name] == 0:
		return missing(param + "." + want.name)
	case members[want.name] != want.kind:
		return wrongType(param+"."+want.name, want.what, members[want.name])
	}
	return nil
}

// partMembers are the member that each type of part must have.
var partMembers = map[string]struct {
	name string
	kind jsontext.Kind
	what string
}{
	"text":        {"text", '"', "a string"},
	"refusal":     {"refusal", '"', "a string"},
	"image_url":   {"image_url", '{', "an object"},
	"input_audio": {"input_audio", '{', "an object"},
	"file":        {"file", '{', "an object"},
}

// memberName is unquote without a copy for the names that are compared most.
func memberName(quoted jsontext.Value) string {
	switch string(quoted) {
	case `"role"`:
		return "role"
	case `"content"`:
		return "content"
	case `"user"`:
		return "user"
	case `"assistant"`:
		return "assistant"
	case `"type"`:
		return "type"
	case `"text"`:
		return "text"
	}
	return unquote(quoted)
}
