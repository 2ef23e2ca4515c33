package responses

import (
	"bytes"
	"encoding/json"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// A member is a member of a JSON object, with its value.
type member struct {
	name  string
	value []byte // JSON; nil: the object has no such member
}

func text(s string) []byte { return openai.AppendString(nil, s) }

func boolean(b bool) []byte {
	if b {
		return []byte("true")
	}
	return []byte("false")
}

// replaced returns an object with other values of some members. Members that it lacks are added.
func replaced(object []byte, with ...member) []byte {
	size := len(object) + 256
	for _, m := range with {
		size += len(m.value)
	}
	return appendReplaced(make([]byte, 0, size), object, with...)
}

// appendReplaced appends what replaced returns.
func appendReplaced(out, object []byte, with ...member) []byte {
	out = append(out, '{')
	first := len(out)
	put := func(name string, value []byte) {
		if value == nil {
			return
		}
		if len(out) > first {
			out = append(out, ',')
		}
		out = append(append(openai.AppendString(out, name), ':'), value...)
	}
	done := make([]bool, len(with))
	gjson.ParseBytes(object).ForEach(func(name, v gjson.Result) bool {
		value := []byte(v.Raw)
		for i, m := range with {
			if m.name == name.Str {
				value, done[i] = m.value, true
			}
		}
		put(name.Str, value)
		return true
	})
	for i, m := range with {
		if !done[i] {
			put(m.name, m.value)
		}
	}
	return append(out, '}')
}

// spliced returns an object with another value of a member, which it has; or the object itself.
func spliced(object []byte, name string, value []byte) []byte {
	was := gjson.GetBytes(object, name)
	if !was.Exists() || was.Index == 0 {
		return object
	}
	out := make([]byte, 0, len(object)-len(was.Raw)+len(value))
	out = append(append(out, object[:was.Index]...), value...)
	return append(out, object[was.Index+len(was.Raw):]...)
}

// array returns a JSON array of values.
func array[T ~[]byte](values []T) []byte {
	parts := make([][]byte, len(values))
	for i, v := range values {
		parts[i] = v
	}
	return append(append([]byte{'['}, bytes.Join(parts, []byte{','})...), ']')
}

// elements returns the elements of an array, which is one that the gateway has written or a provider's.
func elements(list []byte) ([]json.RawMessage, error) {
	var all []json.RawMessage
	err := json.Unmarshal(list, &all)
	return all, err
}
