package legacy

import (
	"fmt"

	"github.com/tidwall/gjson"
)

// appendObject appends a converted object: member appends the replacement of a member, which may be nothing.
func appendObject(dst []byte, object gjson.Result, member func(dst []byte, name, value gjson.Result) []byte) []byte {
	dst = append(dst, '{')
	begin := len(dst)
	object.ForEach(func(name, value gjson.Result) bool {
		end := len(dst)
		if end > begin {
			dst = append(dst, ',')
		}
		if after := member(dst, name, value); len(after) > len(dst) {
			dst = after
		} else {
			dst = dst[:end]
		}
		return true
	})
	return append(dst, '}')
}

// appendSame appends a member unchanged.
func appendSame(dst []byte, name, value gjson.Result) []byte {
	return append(append(append(dst, name.Raw...), ':'), value.Raw...)
}

// appendArray appends a converted array: element appends the replacement of an element.
func appendArray(dst []byte, array gjson.Result, element func(dst []byte, i int, value gjson.Result) []byte) []byte {
	dst = append(dst, '[')
	i := 0
	array.ForEach(func(_, value gjson.Result) bool {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = element(dst, i, value)
		i++
		return true
	})
	return append(dst, ']')
}

// toCalls returns the messages with tool calls instead of function calls, and tool results instead of function
// results. The result of a function that was not called stays unchanged.
func toCalls(messages []byte) []byte {
	called := map[string]string{} // the id of the last call of a function
	return appendArray(make([]byte, 0, len(messages)+64), gjson.ParseBytes(messages),
		func(dst []byte, i int, m gjson.Result) []byte {
			switch f := m.Get("function_call"); {
			case f.IsObject() && isEmpty([]byte(m.Get("tool_calls").Raw)):
				id := fmt.Sprintf("call%05d", i) // nine letters and digits, as some vendors require
				called[f.Get("name").Str] = id
				return appendObject(dst, m, func(dst []byte, name, value gjson.Result) []byte {
					switch name.Str {
					case "tool_calls":
						return dst
					case "function_call":
						return fmt.Appendf(dst, `"tool_calls":[{"id":%q,"type":"function","function":%s}]`, id, f.Raw)
					}
					return appendSame(dst, name, value)
				})
			case m.Get("role").Str == "function" && called[m.Get("name").Str] != "":
				return appendResult(dst, m, called[m.Get("name").Str])
			}
			return append(dst, m.Raw...)
		})
}

func appendResult(dst []byte, m gjson.Result, id string) []byte {
	return appendObject(dst, m, func(dst []byte, name, value gjson.Result) []byte {
		switch {
		case name.Str == "role":
			return append(dst, `"role":"tool"`...)
		case name.Str == "name":
			return fmt.Appendf(dst, `"tool_call_id":%q`, id)
		case name.Str == "content" && value.Type == gjson.Null:
			return append(dst, `"content":""`...)
		}
		return appendSame(dst, name, value)
	})
}

// A rebuild converts an answer, or a chunk, for a client of functions.
type rebuild struct {
	said string // the member of a choice with the content: message or delta
	rest bool   // the result has content that the client does not have yet
}

func (r *rebuild) append(dst []byte, answer gjson.Result) []byte {
	return appendObject(dst, answer, func(dst []byte, name, value gjson.Result) []byte {
		switch {
		case name.Str == "choices" && value.IsArray():
			return appendArray(append(dst, `"choices":`...), value, r.choice)
		case name.Str == "usage" && value.Type != gjson.Null:
			r.rest = true
		}
		return appendSame(dst, name, value)
	})
}

func (r *rebuild) choice(dst []byte, _ int, choice gjson.Result) []byte {
	return appendObject(dst, choice, func(dst []byte, name, value gjson.Result) []byte {
		switch {
		case name.Str == r.said:
			return appendObject(append(append(dst, name.Raw...), ':'), value, r.member)
		case name.Str == "finish_reason" && value.Type == gjson.String:
			r.rest = true
			if value.Str == "tool_calls" {
				return append(dst, `"finish_reason":"function_call"`...)
			}
		}
		return appendSame(dst, name, value)
	})
}

// member converts a member of a message or a delta. The first call becomes the function call.
func (r *rebuild) member(dst []byte, name, value gjson.Result) []byte {
	if name.Str != "tool_calls" {
		r.rest = true
		return appendSame(dst, name, value)
	}
	var function gjson.Result
	value.ForEach(func(_, call gjson.Result) bool {
		if call.Get("index").Int() == 0 {
			function = call.Get("function")
		}
		return !function.Exists()
	})
	if !function.Exists() {
		return dst
	}
	r.rest = true
	return append(append(dst, `"function_call":`...), function.Raw...)
}
