package openaicompat

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// A said is a message or a delta. Its members are JSON, and nil if absent.
type said struct {
	data                []byte
	content, refusal    []byte
	reasoning           []byte // a string that is not empty
	otherReasoning      []byte // reasoning
	details             []byte // reasoning_details
	calls, functionCall []byte // an array that is not empty, an object
	annotated           bool
	substance           bool // it says something
	listed              bool // it has lists that are given whole: see heldList
	others              bool // it has members that are not written apart
}

// read reads the message or delta that begins here, if it is one.
func (s *said) read(at *jsonwalk.Reader, data []byte) {
	if at.Kind() != '{' {
		at.Value()
		return
	}
	from := at.At()
	at.Object(func(name, nameEnd int) {
		if value := at.Value(); value != nil {
			s.take(data[name+1:nameEnd-1], value)
		}
	})
	s.data = data[from:at.At()]
	switch {
	case isText(s.reasoning):
	case isText(s.otherReasoning):
		s.reasoning = s.otherReasoning
	default:
		s.reasoning = textOf(s.details)
	}
	if kindOf(s.content) == '[' {
		s.splitContent()
	}
}

// take takes in a member. Content and refusals of other kinds are nothing that a client could show.
func (s *said) take(name, value []byte) {
	k := value[0]
	says := (k == '"' || k == '[' || k == '{') && !saysNothing(value)
	switch string(name) {
	case "role":
		return
	case "content":
		if k != '"' && k != '[' && k != 'n' {
			return
		}
		s.content = value
	case "refusal":
		if k != '"' && k != 'n' {
			return
		}
		s.refusal = value
	case "reasoning_content":
		s.reasoning = value
	case "reasoning":
		s.otherReasoning = value
		s.others = s.others || k != '"' && k != 'n'
	case "reasoning_details":
		s.details = value
		s.others = true
		s.listed = s.listed || isHeld(value)
	case "tool_calls":
		if says = says && k == '['; says {
			s.calls = value
		}
	case "function_call":
		if k == '{' {
			s.functionCall = value
		}
		s.others = s.others || k != 'n'
	case "annotations":
		s.annotated = says && k == '['
		fallthrough
	default:
		s.others = true
		if isHeld(value) {
			s.listed = true
			return
		}
	}
	s.substance = s.substance || says
}

// member returns the value of a member as JSON, or nil.
func (s *said) member(name string) (found []byte) {
	if !s.others {
		if name == "reasoning_content" {
			return s.reasoning
		}
		return nil
	}
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

// textOf returns the text of OpenRouter's reasoning_details as JSON, or nil if there is none to read.
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

// appendOthers appends the members that are not written apart. Lists to be given whole go to lists, if that is not
// nil.
func (s *said) appendOthers(dst []byte, lists *heldLists) []byte {
	if !s.others {
		return dst
	}
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
		if lists != nil && s.listed && isHeld(value) {
			lists.add(name, value)
			return
		}
		dst = appendMember(dst, name, value)
	})
	return dst
}

// appendLogprobs appends a choice's log probabilities as OpenAI has them in chat completions. Together has lists of
// its own for them, and in a stream a number: that of the text in the same chunk.
func appendLogprobs(dst, logprobs, text []byte) []byte {
	switch k := kindOf(logprobs); {
	case k == '{' && gjson.GetBytes(logprobs, "tokens").IsArray() && !gjson.GetBytes(logprobs, "content").Exists():
		return appendTokenLists(dst, gjson.ParseBytes(logprobs))
	case k == '-' || k >= '0' && k <= '9':
		if !isText(text) {
			return append(dst, "null"...)
		}
		dst = append(append(dst, `{"content":[{"token":`...), text...)
		dst = append(append(dst, `,"logprob":`...), logprobs...)
		return append(dst, `,"bytes":null,"top_logprobs":[]}],"refusal":null}`...)
	case k == '{':
		return append(dst, logprobs...)
	}
	return append(dst, "null"...)
}

// appendTokenLists appends what Together says in lists: tokens, token_logprobs, and top_logprobs as an object for
// each.
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
