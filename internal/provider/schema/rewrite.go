package schema

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// IsObject reports whether a schema accepts only objects.
func IsObject(text jsontext.Value) bool {
	return text.Kind() == '{' && string(Find(Members(text), "type")) == `"object"`
}

// Object returns the schema of a tool's input for vendors that require an object without oneOf, anyOf and allOf at the
// root. Removed keywords are returned as a separate schema. A nil schema has no members.
func Object(text jsontext.Value) (object jsontext.Value, also string) {
	ms := Members(text)
	if len(ms) == 0 {
		return jsontext.Value(`{"type":"object","properties":{}}`), ""
	}
	isCombination := func(m Member) bool { return m.Name == "oneOf" || m.Name == "anyOf" || m.Name == "allOf" }
	hasType := string(Find(ms, "type")) == `"object"`
	if hasType && !slices.ContainsFunc(ms, isCombination) {
		return text, ""
	}
	var root, apart []Member
	if !hasType {
		root = append(root, Member{"type", jsontext.Value(`"object"`)})
	}
	for _, m := range ms {
		switch {
		case isCombination(m):
			apart = append(apart, m)
		case m.Name != "type" || hasType:
			root = append(root, m)
		}
	}
	if len(apart) > 0 {
		also = string(AppendObject(nil, apart))
	}
	return AppendObject(nil, root), also
}

// Closed rewrites a schema for structured output and strict tools of vendors that support a subset of JSON Schema.
// Every object is closed, and keywords that are not enforced are added to the description for the model. It returns
// false for schemas that cannot be expressed: a root that is not an object, objects with arbitrary members, recursive
// schemas and schemas deeper than MaxDepth.
func Closed(text jsontext.Value) (jsontext.Value, bool) {
	if !IsObject(text) {
		return nil, false
	}
	out, ok := closed(make([]byte, 0, len(text)+len(text)/4), string(text), MaxDepth)
	if !ok || recursive(text) {
		return nil, false
	}
	return out, true
}

// A closing is the state of a schema that is rewritten.
type closing struct {
	typ           string
	hasProperties bool
	closed        bool   // the schema itself excludes other members
	combined      bool   // other schemas may define the members
	hints         []byte // keywords that are not enforced, as members of an object that is still open
	description   string // as JSON
	describedAt   int    // the end of the description in the output
}

// closed appends one schema with its subschemas, down to depth levels.
func closed(dst []byte, text string, depth int) ([]byte, bool) {
	if depth == 0 {
		return dst, false
	}
	if text == "" || text[0] != '{' {
		return append(dst, text...), text == "true" // which is any value; there is no way to say none
	}
	var c closing
	ok := true
	dst = append(dst, '{')
	eachMember(text, func(name, v string) bool {
		dst, ok = c.member(dst, name, v, depth)
		return ok
	})
	if !ok {
		return dst, false
	}
	if strings.Contains(c.typ, `"object"`) || c.typ == "" && c.hasProperties {
		if !c.hasProperties && !c.closed && !c.combined {
			return dst, false // any members are allowed
		}
		dst = append(begin(dst, "additionalProperties"), "false"...)
	}
	return append(c.describe(dst), '}'), true
}

func (c *closing) member(dst []byte, name, v string, depth int) ([]byte, bool) {
	switch name {
	case "properties", "$defs", "definitions":
		c.hasProperties = c.hasProperties || name == "properties"
		return closedEach(begin(dst, name), v, depth-1)
	case "items":
		return closed(begin(dst, name), v, depth-1)
	case "anyOf", "allOf":
		c.combined = true
		return closedEach(begin(dst, name), v, depth-1)
	case "oneOf":
		c.combined = true
		return closedEach(begin(dst, "anyOf"), v, depth-1)
	case "additionalProperties":
		c.closed = v == "false"
		return dst, c.closed
	case "patternProperties", "propertyNames", "not", "if", "then", "else", "prefixItems", "dependentSchemas",
		"unevaluatedProperties":
		return dst, false
	case "$schema", "$id", "examples":
		return dst, true
	case "description":
		if v == "" || v[0] != '"' {
			return dst, true
		}
		dst = append(begin(dst, name), v...)
		c.description, c.describedAt = v, len(dst)
		return dst, true
	case "type":
		c.typ = v
	case "$ref":
		c.combined = true
	case "enum", "const", "title", "default", "required":
	default:
		if !enforced(name, v) {
			if c.hints == nil {
				c.hints = append(c.hints, '{')
			}
			c.hints = append(begin(c.hints, name), v...)
			return dst, true
		}
	}
	return append(begin(dst, name), v...), true
}

// describe appends the keywords that are not enforced to the description.
func (c *closing) describe(dst []byte) []byte {
	if c.hints == nil {
		return dst
	}
	hint := string(append(c.hints, '}'))
	if c.description == "" {
		return openai.AppendString(begin(dst, "description"), hint)
	}
	told := openai.AppendString(nil, gjson.Parse(c.description).Str+"\n\n"+hint)
	return slices.Replace(dst, c.describedAt-len(c.description), c.describedAt, told...)
}

// enforced reports whether vendors enforce a keyword with this value.
func enforced(name, v string) bool {
	switch name {
	case "minItems":
		return v == "0" || v == "1"
	case "format":
		formats := []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
		return slices.Contains(formats, strings.Trim(v, `"`))
	}
	return false
}

// closedEach appends an object or an array of schemas.
func closedEach(dst []byte, text string, depth int) ([]byte, bool) {
	if text == "" || text[0] != '{' && text[0] != '[' {
		return dst, false
	}
	ok, isObject := true, text[0] == '{'
	dst = append(dst, text[0])
	eachMember(text, func(name, v string) bool {
		switch {
		case isObject:
			dst = begin(dst, name)
		case dst[len(dst)-1] != '[':
			dst = append(dst, ',')
		}
		dst, ok = closed(dst, v, depth)
		return ok
	})
	if isObject {
		return append(dst, '}'), ok
	}
	return append(dst, ']'), ok
}

// eachMember calls f for the members of an object or the elements of an array, until it returns false.
func eachMember(text string, f func(name, v string) bool) {
	gjson.Result{Type: gjson.JSON, Raw: text}.ForEach(func(name, v gjson.Result) bool { return f(name.Str, v.Raw) })
}

// begin begins a member of the open object. Its value follows.
func begin(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(openai.AppendString(dst, name), ':')
}
