package openai

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// checkMessages steps over the array of messages and returns their number.
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

// messageFacts are the facts about a message that the checks need.
type messageFacts struct {
	role       string
	hasContent bool // it has content that is not null
	calls      bool // it has tool calls, a function call, a refusal or audio instead
	toolCallID bool
}

func checkMessage(c *cursor, n int) error {
	var f messageFacts
	for c.enter(); c.more(); {
		if err := f.member(c, n, c.str()); err != nil {
			return err
		}
	}
	return f.check(c, n)
}

// member steps over the value of a member of the n-th message. Null is treated as absent.
func (f *messageFacts) member(c *cursor, n int, name []byte) error {
	k := c.peek()
	switch string(name) {
	case "reasoning_content":
		c.marks |= MarkReasoning
	case "thinking_blocks":
		c.marks |= MarkThoughts
	case "cache_control":
		c.marks |= MarkCacheControl
	case "images", "reasoning", "reasoning_details":
		c.marks |= MarkExtensions
	case "tool_calls", "tool_call_id":
		c.marks |= MarkCalls
	}
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
		start := c.at
		c.value()
		c.markHeader(c.data[start:c.at])
		return nil
	case "tool_calls":
		f.calls = true
		return checkCalls(c, n)
	case "function_call", "audio":
		if f.calls = true; k != '{' {
			return WrongType(fmt.Sprintf("messages[%d].%s", n, name), "an object", k)
		}
	case "tool_call_id", "name", "refusal":
		f.calls = f.calls || string(name) == "refusal"
		if k != '"' {
			return WrongType(fmt.Sprintf("messages[%d].%s", n, name), "a string", k)
		}
		if string(name) == "tool_call_id" {
			f.toolCallID = true
			c.markStrange(c.value())
			return nil
		}
	}
	c.value()
	return nil
}

var (
	callFields = []field{
		{name: "id", kind: '"'}, {name: "type", kind: '"'}, {name: "function", kind: '{', inner: checkCalled},
		{name: "custom", kind: '{'},
	}
	calledFields = []field{{name: "name", kind: '"'}}
)

// checkCalled checks the function of a call. Its arguments may be an object, as with some vendors.
func checkCalled(c *cursor) error {
	var got [1]jsontext.Value
	err := c.object(calledFields, got[:])
	c.markStrange(got[0])
	return err
}

// longestPlain is the length of an id or a name that every vendor takes.
const longestPlain = 40

// markStrange marks a request with an id or a name, as JSON, that some vendors refuse.
func (c *cursor) markStrange(word jsontext.Value) {
	if len(word) < len(`""`) {
		return
	}
	s := word[1 : len(word)-1]
	strange := len(s) == 0 || len(s) > longestPlain || s[0] >= '0' && s[0] <= '9' || s[0] == '-'
	for _, b := range s {
		plain := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-'
		strange = strange || !plain
	}
	if strange {
		c.marks |= MarkStrange
	}
}

// markHeader marks a request with a text, as JSON, that begins as a header does: see package private.
func (c *cursor) markHeader(text jsontext.Value) {
	if len(text) > 2 && text[1] == 'x' && text[2] == '-' {
		c.marks |= MarkHeader
	}
}

func checkCalls(c *cursor, n int) error {
	if k := c.peek(); k != '[' {
		return WrongType(fmt.Sprintf("messages[%d].tool_calls", n), "an array", k)
	}
	c.in("messages", n)
	defer c.out()
	var got [4]jsontext.Value
	i := 0
	for c.enter(); c.more(); i++ {
		if i == maxElements {
			return tooLong(fmt.Sprintf("messages[%d].tool_calls", n), maxElements)
		}
		c.in("tool_calls", i)
		if err := c.object(callFields, got[:]); err != nil {
			return err
		}
		c.markStrange(got[0])
		c.out()
	}
	return nil
}

func (f *messageFacts) check(c *cursor, n int) error {
	if f.role == "developer" {
		c.marks |= MarkDeveloper
	}
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
		return c.addDeviation("messages.role:"+f.role, func() *Error {
			return unknownWord(fmt.Sprintf("messages[%d].role", n), f.role, []string{"system", "developer", "user", "assistant",
				"tool", "function"})
		})
	}
	return nil
}

func checkParts(c *cursor, n int) error {
	c.in("messages", n)
	defer c.out()
	i := 0
	for c.enter(); c.more(); i++ {
		c.in("content", i)
		if err := checkPart(c); err != nil {
			return err
		}
		c.out()
	}
	return nil
}

// partFields are the members of parts: the type, and for each of OpenAI's types the member with its name.
var partFields = []field{
	{name: "type", required: true}, {name: "text"}, {name: "image_url", inner: checkImage},
	{name: "input_audio", inner: checkSound}, {name: "file", inner: checkFile},
	{name: "refusal"},
}

// partKinds are the kinds of partFields in parts of their type. Some vendors accept a text instead of an object.
var partKinds = [...]jsontext.Kind{0, '"', '{', '{', '{', '"'}

func checkPart(c *cursor) error {
	var got [len(partKinds)]jsontext.Value
	if err := c.object(partFields, got[:]); err != nil {
		return err
	}
	c.markHeader(got[1])
	typ := got[0]
	if k := typ.Kind(); k != '"' {
		return WrongType(c.where("type"), "a string", k)
	}
	for i := 1; i < len(partFields); i++ {
		name := partFields[i].name
		if string(typ[1:len(typ)-1]) != name {
			continue
		}
		switch k := got[i].Kind(); {
		case got[i] == nil:
			return missing(c.where(name))
		case k == '"' && (name == "image_url" || name == "input_audio"): // Mistral's
			return c.addDeviation(name, func() *Error { return WrongType(c.where(name), "an object", k) })
		case k != partKinds[i]:
			return WrongType(c.where(name), kindName(partKinds[i]), k)
		}
		return nil
	}
	if s := string(typ); s == `"thinking"` || s == `"redacted_thinking"` {
		c.marks |= MarkThoughts
	}
	c.addUnknownWord(func() string { return c.where("type") }, typ, "text", "image_url", "input_audio", "file", "refusal")
	return nil
}

var (
	imageFields = []field{{name: "url", kind: '"', required: true}, {name: "detail", kind: '"'}}
	soundFields = []field{{name: "data", kind: '"', required: true}, {name: "format", kind: '"', required: true}}
	fileFields  = []field{{name: "file_id", kind: '"'}, {name: "filename", kind: '"'}, {name: "file_data", kind: '"'}}
)

func checkImage(c *cursor) error {
	var got [2]jsontext.Value
	if err := c.object(imageFields, got[:]); err != nil {
		return err
	}
	c.addUnknownWord(func() string { return c.where("detail") }, got[1], "auto", "low", "high", "original")
	return nil
}

func checkSound(c *cursor) error {
	var got [2]jsontext.Value
	if err := c.object(soundFields, got[:]); err != nil {
		return err
	}
	c.addUnknownWord(func() string { return c.where("format") }, got[1], "wav", "mp3")
	return nil
}

func checkFile(c *cursor) error {
	var got [3]jsontext.Value
	return c.object(fileFields, got[:])
}
