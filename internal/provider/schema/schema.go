// Package schema reads and rewrites JSON Schemas as text, in the client's order, for vendors that support a subset of
// JSON Schema.
//
// It builds no tree. Members and Elements read one level, without a copy. Deeper levels are read again by the caller
// that descends. So every walk has a maximum depth (MaxDepth), which keeps the time in proportion to the size.
package schema

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// MaxDepth bounds the nesting of schemas that are rewritten.
const MaxDepth = 32

// A Member is one member of a JSON object.
type Member struct {
	Name  string
	Value jsontext.Value
}

// Members returns the members of an object, in order. The values share its memory. The object must be valid JSON.
func Members(object jsontext.Value) []Member {
	if object.Kind() != '{' {
		return nil
	}
	out := make([]Member, 0, 8)
	each(object, func(name gjson.Result, v jsontext.Value) { out = append(out, Member{name.Str, v}) })
	return out
}

// Elements returns the elements of an array, as Members does for an object.
func Elements(array jsontext.Value) []jsontext.Value {
	if array.Kind() != '[' {
		return nil
	}
	var out []jsontext.Value
	each(array, func(_ gjson.Result, v jsontext.Value) { out = append(out, v) })
	return out
}

func each(text jsontext.Value, f func(name gjson.Result, v jsontext.Value)) {
	gjson.Result{Type: gjson.JSON, Raw: string(text)}.ForEach(func(name, v gjson.Result) bool {
		end := v.Index + len(v.Raw)
		f(name, text[v.Index:end:end])
		return true
	})
}

// AppendObject appends an object of the members to dst, without those whose value is nil.
func AppendObject(dst []byte, ms []Member) jsontext.Value {
	dst = append(dst, '{')
	first := len(dst)
	for _, m := range ms {
		if m.Value == nil {
			continue
		}
		if len(dst) > first {
			dst = append(dst, ',')
		}
		dst = append(append(openai.AppendString(dst, m.Name), ':'), m.Value...)
	}
	return append(dst, '}')
}

// AppendEdited appends an object with the edits applied to dst. New members are added at the end.
func AppendEdited(dst []byte, object jsontext.Value, edits ...openai.Edit) jsontext.Value {
	ms, size := Members(object), len(object)+2
	for _, e := range edits {
		size += len(e.Name) + len(e.Value) + len(`,"":`)
		found := false
		for i := range ms {
			if ms[i].Name == e.Name {
				ms[i].Value, found = e.Value, true
			}
		}
		if !found {
			ms = append(ms, Member{e.Name, e.Value})
		}
	}
	return AppendObject(slices.Grow(dst, size), ms)
}

// Without returns the members without those that have one of the names. It overwrites ms.
func Without(ms []Member, names ...string) []Member {
	return slices.DeleteFunc(ms, func(m Member) bool { return slices.Contains(names, m.Name) })
}

// AppendArray appends an array of the elements to dst.
func AppendArray(dst []byte, elements []jsontext.Value) jsontext.Value {
	dst = append(dst, '[')
	for i, v := range elements {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, v...)
	}
	return append(dst, ']')
}

// Find returns the value of the first member of the name, or nil.
func Find(ms []Member, name string) jsontext.Value {
	if i := slices.IndexFunc(ms, func(m Member) bool { return m.Name == name }); i >= 0 {
		return ms[i].Value
	}
	return nil
}

// Describe appends hint to the description among the members of a schema, to tell the model what a vendor does not
// enforce.
func Describe(ms []Member, hint string) []Member {
	i := slices.IndexFunc(ms, func(m Member) bool { return m.Name == "description" && m.Value.Kind() == '"' })
	if i < 0 {
		return append(ms, Member{"description", openai.AppendString(nil, hint)})
	}
	if text, err := jsontext.AppendUnquote(nil, ms[i].Value); err == nil {
		ms[i].Value = openai.AppendString(nil, string(text)+"\n\n"+hint)
	}
	return ms
}
