package responses

import (
	"bytes"
	"encoding/json"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

func set(name string, value []byte) openai.Edit { return openai.Edit{Name: name, Value: value} }

func text(s string) []byte { return openai.AppendString(nil, s) }

func boolean(b bool) []byte {
	if b {
		return []byte("true")
	}
	return []byte("false")
}

// replaced returns an object with other values of some members. Members that it lacks are added.
func replaced(object []byte, with ...openai.Edit) []byte {
	return schema.AppendEdited(nil, object, with...)
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
