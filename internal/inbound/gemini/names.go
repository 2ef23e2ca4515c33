package gemini

import (
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// Google documents two spellings of each name: in camel case, and with underscores. Its servers take no other.

// A shape has the names of the members of an object that the dialect knows, as the structs of a request say them.
type shape struct {
	camel map[string]string // by both spellings
	inner map[string]*shape // by the name in camel case
}

var (
	requestShape  = shapeOf(reflect.TypeFor[body](), map[reflect.Type]*shape{})
	embedShape    = shapeOf(reflect.TypeFor[embedBody](), map[reflect.Type]*shape{})
	embedAllShape = shapeOf(reflect.TypeFor[embedAllBody](), map[reflect.Type]*shape{})
)

func shapeOf(t reflect.Type, known map[reflect.Type]*shape) *shape {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if s := known[t]; s != nil || t.Kind() != reflect.Struct {
		return s
	}
	s := &shape{camel: map[string]string{}, inner: map[string]*shape{}}
	known[t] = s
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		s.camel[name], s.camel[underscores(name)] = name, name
		s.inner[name] = shapeOf(f.Type, known)
	}
	return s
}

// underscores returns a name in camel case with underscores.
func underscores(name string) string {
	var b strings.Builder
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// read reads valid JSON into a struct that has the shape. A member in both spellings occurs twice.
func (s *shape) read(data []byte, to any) error {
	plain, _ := s.appendTo(make([]byte, 0, len(data)), data, jsonwalk.Between(data, 0))
	return json.Unmarshal(plain, to)
}

// appendTo appends the value at a position, with the names in camel case, and returns the position after it.
func (s *shape) appendTo(dst, data []byte, at int) ([]byte, int) {
	switch {
	case s != nil && data[at] == '{':
		dst = append(dst, '{')
		end := jsonwalk.Object(data, at, func(name, nameEnd, start int) int {
			if dst[len(dst)-1] != '{' {
				dst = append(dst, ',')
			}
			quoted := data[name:nameEnd]
			camel, ok := s.camel[openai.Unquote(quoted)]
			if ok {
				dst = openai.AppendString(dst, camel)
			} else {
				dst = append(dst, quoted...)
			}
			var valueEnd int
			dst, valueEnd = s.inner[camel].appendTo(append(dst, ':'), data, start)
			return valueEnd
		})
		return append(dst, '}'), end
	case s != nil && data[at] == '[':
		dst = append(dst, '[')
		end := jsonwalk.Array(data, at, func(start int) int {
			if dst[len(dst)-1] != '[' {
				dst = append(dst, ',')
			}
			var valueEnd int
			dst, valueEnd = s.appendTo(dst, data, start)
			return valueEnd
		})
		return append(dst, ']'), end
	}
	end := jsonwalk.Value(data, at)
	return append(dst, data[at:end]...), end
}

// judged are the members on which guardrails, limits and prices decide.
var judged = map[string]bool{"tools": true, "toolConfig": true, "generationConfig": true}

// checkSpelling returns an error if a member of a valid body has both spellings: which of them Google takes, nobody
// knows. Of members that nobody decides on, only their own names are looked at.
func (s *shape) checkSpelling(data []byte) error {
	seen := make(map[string]bool, len(s.camel))
	var twice jsontext.Value
	jsonwalk.Object(data, jsonwalk.Between(data, 0), func(name, nameEnd, start int) int {
		end := jsonwalk.Value(data, start)
		camel, ok := s.camel[openai.Unquote(data[name:nameEnd])]
		switch {
		case !ok || twice != nil:
		case seen[camel]:
			twice = data[name:nameEnd]
		case judged[camel] && s == requestShape && s.inner[camel].twice(data, start):
			twice = data[name:nameEnd]
		}
		seen[camel] = true
		return end
	})
	if twice == nil {
		return nil
	}
	name := openai.Unquote(twice)
	return openai.CodeDuplicateParameter.On(name,
		"%s: A member occurs in both spellings. Send it once.", name)
}

// twice reports whether a member of the value at a position has both spellings.
func (s *shape) twice(data []byte, at int) bool {
	plain, _ := s.appendTo(nil, data, at)
	return !jsonwalk.Strict(plain)
}
