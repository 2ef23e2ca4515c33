package openaicompat

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// A choice is one of an answer's choices or of a chunk's. Its members are JSON, and nil where they are absent.
type choice struct {
	data                                                 []byte
	index, message, delta, text, reason, logprobs, fault []byte
}

func readChoice(data []byte) choice {
	c := choice{data: data}
	eachMember(data, func(name, value []byte) {
		switch string(name) {
		case "index":
			c.index = value
		case "message":
			c.message = value
		case "delta":
			c.delta = value
		case "text":
			c.text = value
		case "finish_reason":
			c.reason = value
		case "logprobs":
			c.logprobs = value
		case "error":
			c.fault = value
		}
	})
	return c
}

// indexOr returns the choice's index, which vendors may leave out.
func (c *choice) indexOr(position int) int {
	f, err := strconv.ParseFloat(string(c.index), 64)
	if err != nil {
		return position
	}
	return int(max(-1, min(f, maxChoices)))
}

// textValue returns the text of a legacy completion as JSON.
func (c *choice) textValue() []byte {
	if kindOf(c.text) == '"' {
		return c.text
	}
	return []byte(`""`)
}

// appendOthers appends the members that are not OpenAI's. Perplexity repeats the message beside the delta, and the delta
// beside the message.
func (c *choice) appendOthers(dst []byte, s *shape) []byte {
	if s.legacy {
		return appendOthers(dst, c.data, "index", "text", "finish_reason", "logprobs", "error", "usage")
	}
	return appendOthers(dst, c.data, "index", "message", "delta", "finish_reason", "logprobs", "error", "usage")
}

// A said is what a message or a delta says. Its members are JSON, and nil where they are absent.
type said struct {
	data                []byte
	content, refusal    []byte
	reasoning           []byte // a string that is not empty
	calls, functionCall []byte // an array that is not empty, an object
	annotated           bool
	substance           bool // it says something
}

func readSaid(data []byte) said {
	s := said{data: data}
	var other, details []byte
	eachMember(data, func(name, value []byte) {
		switch string(name) {
		case "role":
			return
		case "content":
			s.content = value
		case "refusal":
			s.refusal = value
		case "reasoning_content":
			s.reasoning = value
		case "reasoning":
			other = value
		case "reasoning_details":
			details = value
		case "tool_calls":
			if kindOf(value) == '[' && !isEmpty(value) {
				s.calls = value
			}
			return
		case "function_call":
			if kindOf(value) == '{' {
				s.functionCall = value
			}
		case "annotations":
			s.annotated = kindOf(value) == '[' && !isEmpty(value)
		}
		if k := kindOf(value); (k == '"' || k == '[' || k == '{') && !saysNothing(value) {
			s.substance = true
		}
	})
	s.substance = s.substance || s.calls != nil
	switch {
	case isText(s.reasoning):
	case isText(other):
		s.reasoning = other
	default:
		s.reasoning = textOf(details)
	}
	if kindOf(s.content) == '[' {
		s.splitContent()
	}
	return s
}

// member returns the value of a member as JSON, or nil.
func (s *said) member(name string) (found []byte) {
	eachMember(s.data, func(n, value []byte) {
		if string(n) == name {
			found = value
		}
	})
	return found
}

// splitContent makes text of content that comes in parts, as Mistral's reasoning models give it.
func (s *said) splitContent() {
	var text, thinking strings.Builder
	gjson.ParseBytes(s.content).ForEach(func(_, part gjson.Result) bool {
		switch part.Get("type").Str {
		case "text", "":
			text.WriteString(part.Get("text").Str)
		case "thinking":
			if t := part.Get("thinking"); t.Type == gjson.String {
				thinking.WriteString(t.Str)
			} else {
				t.ForEach(func(_, piece gjson.Result) bool {
					thinking.WriteString(piece.Get("text").Str)
					return true
				})
			}
		}
		return true
	})
	s.content = openai.AppendString(nil, text.String())
	if s.reasoning == nil && thinking.Len() > 0 {
		s.reasoning = openai.AppendString(nil, thinking.String())
	}
}

// textOf returns the text of OpenRouter's reasoning_details as JSON, or nil where there is none to read.
func textOf(details []byte) []byte {
	if kindOf(details) != '[' {
		return nil
	}
	var text strings.Builder
	gjson.ParseBytes(details).ForEach(func(_, d gjson.Result) bool {
		text.WriteString(d.Get("text").Str)
		text.WriteString(d.Get("summary").Str)
		return true
	})
	if text.Len() == 0 {
		return nil
	}
	return openai.AppendString(nil, text.String())
}

// appendOthers appends the members that are not written apart.
func (s *said) appendOthers(dst []byte) []byte {
	eachMember(s.data, func(name, value []byte) {
		switch string(name) {
		case "role", "content", "refusal", "reasoning_content", "tool_calls":
			return
		case "reasoning":
			if k := kindOf(value); k == '"' || k == 'n' {
				return
			}
		case "function_call":
			if kindOf(value) == 'n' {
				return
			}
		}
		dst = appendMember(dst, name, value)
	})
	return dst
}

// appendLogprobs appends a choice's log probabilities as OpenAI has them in chat completions. Together has lists of its own
// for them, and in a stream a number: that of the text in the same chunk.
func appendLogprobs(dst, logprobs, text []byte) []byte {
	switch k := kindOf(logprobs); {
	case k == 0:
		return append(dst, "null"...)
	case k == '{' && gjson.GetBytes(logprobs, "tokens").IsArray() && !gjson.GetBytes(logprobs, "content").Exists():
		return appendTokenLists(dst, gjson.ParseBytes(logprobs))
	case k == '-' || k >= '0' && k <= '9':
		if !isText(text) {
			return append(dst, "null"...)
		}
		dst = append(append(dst, `{"content":[{"token":`...), text...)
		dst = append(append(dst, `,"logprob":`...), logprobs...)
		return append(dst, `,"bytes":null,"top_logprobs":[]}],"refusal":null}`...)
	}
	return append(dst, logprobs...)
}

// appendTokenLists appends what Together says in lists: tokens, token_logprobs, and top_logprobs as an object for each.
func appendTokenLists(dst []byte, lists gjson.Result) []byte {
	numbers, tops := lists.Get("token_logprobs").Array(), lists.Get("top_logprobs").Array()
	appendOne := func(token, logprob string) {
		dst = append(append(dst, `{"token":`...), token...)
		dst = append(append(dst, `,"logprob":`...), logprob...)
		dst = append(dst, `,"bytes":null`...)
	}
	dst = append(dst, `{"content":[`...)
	for i, token := range lists.Get("tokens").Array() {
		if i >= len(numbers) || numbers[i].Type != gjson.Number {
			break
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		appendOne(quote(token.String()), numbers[i].Raw)
		dst = append(dst, `,"top_logprobs":[`...)
		if i < len(tops) {
			n := 0
			tops[i].ForEach(func(token, logprob gjson.Result) bool {
				if n > 0 {
					dst = append(dst, ',')
				}
				appendOne(quote(token.Str), logprob.Raw)
				dst = append(dst, '}')
				n++
				return true
			})
		}
		dst = append(dst, `]}`...)
	}
	return append(dst, `],"refusal":null}`...)
}
