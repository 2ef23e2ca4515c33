package openai

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// checkMessages steps over the array of messages and returns how many there are.
func checkMessages(c *cursor) (int, error) {
	n := 0
	for c.enter(); c.more(); n++ {
		if k := c.peek(); k != '{' {
			return 0, WrongType(fmt.Sprintf("messages[%d]", n), "an object", k)
		}
		if n == maxMessages {
			return 0, tooLong("messages", maxMessages)
		}
		if err := checkMessage(c, n); err != nil {
			return 0, err
		}
	}
	if n == 0 {
		return 0, emptyArray("messages")
	}
	return n, nil
}

// messageFacts is what is known of a message once it was read.
type messageFacts struct {
	role       string
	hasContent bool // there is content that is not null
	calls      bool // there are tool calls, a function call, a refusal or audio in its place
	toolCallID bool
}

func checkMessage(c *cursor, n int) error {
	var f messageFacts
	for c.enter(); c.more(); {
		if err := f.member(c, n, c.str()); err != nil {
			return err
		}
	}
	return f.check(n)
}

// member steps over the value of a member of the n-th message. Null is as if absent.
func (f *messageFacts) member(c *cursor, n int, name []byte) error {
	k := c.peek()
	if k == 'n' {
		c.value()
		return nil
	}
	switch string(name) {
	case "role":
		if k != '"' {
			return WrongType(fmt.Sprintf("messages[%d].role", n), "a string", k)
		}
		f.role = intern(c.str())
		return nil
	case "content":
		if k != '"' && k != '[' {
			return WrongType(fmt.Sprintf("messages[%d].content", n), "a string or an array of objects", k)
		}
		if f.hasContent = true; k == '[' {
			return checkParts(c, n)
		}
	case "tool_calls":
		f.calls = true
		return checkCalls(c, n)
	case "function_call", "refusal", "audio":
		f.calls = true
	case "tool_call_id", "name":
		if k != '"' {
			return WrongType(fmt.Sprintf("messages[%d].%s", n, name), "a string", k)
		}
		f.toolCallID = f.toolCallID || string(name) == "tool_call_id"
	}
	c.value()
	return nil
}

func checkCalls(c *cursor, n int) error {
	if k := c.peek(); k != '[' {
		return WrongType(fmt.Sprintf("messages[%d].tool_calls", n), "an array", k)
	}
	i := 0
	for c.enter(); c.more(); i++ {
		if k := c.peek(); k != '{' {
			return WrongType(fmt.Sprintf("messages[%d].tool_calls[%d]", n, i), "an object", k)
		}
		if i == maxElements {
			return tooLong(fmt.Sprintf("messages[%d].tool_calls", n), maxElements)
		}
		c.value()
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

func checkParts(c *cursor, n int) error {
	i := 0
	for c.enter(); c.more(); i++ {
		if k := c.peek(); k != '{' {
			return WrongType(fmt.Sprintf("messages[%d].content[%d]", n, i), "an object", k)
		}
		if err := checkPart(c, n, i); err != nil {
			return err
		}
	}
	return nil
}

// partTypes are the types of parts that OpenAI knows. Each must have the member of its own name.
var partTypes = [...]struct {
	name string
	kind jsontext.Kind
	what string
}{
	{"text", '"', "a string"},
	{"image_url", '{', "an object"},
	{"input_audio", '{', "an object"},
	{"file", '{', "an object"},
	{"refusal", '"', "a string"},
}

func checkPart(c *cursor, n, i int) error {
	typ := ""
	var kinds [len(partTypes)]jsontext.Kind // of the members of these names; 0 where there is none
	for c.enter(); c.more(); {
		name, k := c.str(), c.peek()
		if string(name) == "type" && k == '"' {
			typ = intern(c.str())
			continue
		}
		for t := range partTypes {
			if string(name) == partTypes[t].name {
				kinds[t] = k
			}
		}
		c.value()
	}
	if typ == "" {
		return missing(fmt.Sprintf("messages[%d].content[%d].type", n, i))
	}
	for t, want := range partTypes { // other types are a provider's own
		if typ != want.name || kinds[t] == want.kind {
			continue
		}
		param := fmt.Sprintf("messages[%d].content[%d].%s", n, i, typ)
		if kinds[t] == 0 {
			return missing(param)
		}
		return WrongType(param, want.what, kinds[t])
	}
	return nil
}
