package messages

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// What is narrowed at most: each level is read again for each one around it.
const (
	maxSchema = 256 << 10
	maxDepth  = 32
)

// A member is one member of a JSON object, in the client's order.
type member struct {
	name  string
	value jsontext.Value
}

// members reads an object that is known to be valid JSON.
func members(object jsontext.Value) []member {
	var out []member
	dec := jsontext.NewDecoder(bytes.NewReader(object))
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() == '"' {
		var name jsontext.Token
		var v jsontext.Value
		if name, err = dec.ReadToken(); err != nil {
			break
		}
		m := member{name: name.String()}
		if v, err = dec.ReadValue(); err == nil {
			m.value = v.Clone()
			out = append(out, m)
		}
	}
	return out
}

// elements reads an array that is known to be valid JSON.
func elements(array jsontext.Value) []jsontext.Value {
	var out []jsontext.Value
	dec := jsontext.NewDecoder(bytes.NewReader(array))
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != ']' {
		var v jsontext.Value
		if v, err = dec.ReadValue(); err == nil {
			out = append(out, v.Clone())
		}
	}
	return out
}

func appendObject(dst []byte, ms []member) jsontext.Value {
	dst = append(dst, '{')
	for i, m := range ms {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(openai.AppendString(dst, m.name), ':'), m.value...)
	}
	return append(dst, '}')
}

func find(ms []member, name string) jsontext.Value {
	if i := slices.IndexFunc(ms, func(m member) bool { return m.name == name }); i >= 0 {
		return ms[i].value
	}
	return nil
}

// objectSchema returns the schema of a tool's input, whose root the vendor wants to be an object without oneOf, anyOf
// and allOf. What had to be taken out of the root is returned as a schema of its own.
func objectSchema(schema jsontext.Value) (object jsontext.Value, also string) {
	if !asked(schema) {
		return jsontext.Value(`{"type":"object","properties":{}}`), ""
	}
	ms := members(schema)
	isCombination := func(m member) bool { return m.name == "oneOf" || m.name == "anyOf" || m.name == "allOf" }
	hasType := string(find(ms, "type")) == `"object"`
	if hasType && !slices.ContainsFunc(ms, isCombination) {
		return schema, ""
	}
	var root, apart []member
	if !hasType {
		root = append(root, member{"type", jsontext.Value(`"object"`)})
	}
	for _, m := range ms {
		switch {
		case isCombination(m):
			apart = append(apart, m)
		case m.name != "type" || hasType:
			root = append(root, m)
		}
	}
	if len(apart) > 0 {
		also = string(appendObject(nil, apart))
	}
	return appendObject(nil, root), also
}

// narrowSchema rewrites a schema for structured output and strict tools, which take a part of JSON Schema: every object
// is closed, and what cannot be enforced is told to the model in the description instead. It reports false for what
// cannot be said at all (a root that is no object, objects with arbitrary members) and for schemas beyond measure.
func narrowSchema(schema jsontext.Value) (jsontext.Value, bool) {
	if len(schema) > maxSchema || schema.Kind() != '{' || string(find(members(schema), "type")) != `"object"` {
		return nil, false
	}
	return narrow(schema, maxDepth)
}

// narrow rewrites one schema and those within it, down to depth levels.
func narrow(schema jsontext.Value, depth int) (jsontext.Value, bool) {
	if depth == 0 {
		return nil, false
	}
	if schema.Kind() != '{' {
		return schema, schema.Kind() == 't' // true is any value; there is no way to say none
	}
	var out, hints []member
	ms := members(schema)
	for _, m := range ms {
		ok := true
		switch m.name {
		case "properties", "$defs", "definitions":
			m.value, ok = narrowEach(m.value, depth-1)
		case "items":
			m.value, ok = narrow(m.value, depth-1)
		case "anyOf", "allOf":
			m.value, ok = narrowAll(m.value, depth-1)
		case "oneOf":
			m.name = "anyOf"
			m.value, ok = narrowAll(m.value, depth-1)
		case "additionalProperties":
			if string(m.value) != "false" {
				return nil, false
			}
			continue
		case "patternProperties", "propertyNames", "not", "if", "then", "else", "prefixItems", "dependentSchemas", "unevaluatedProperties":
			return nil, false
		case "type", "enum", "const", "$ref", "title", "default", "required", "description":
		default:
			if !enforced(m) {
				hints = append(hints, m)
				continue
			}
		}
		if !ok {
			return nil, false
		}
		out = append(out, m)
	}
	if isObject(ms) {
		out = append(out, member{"additionalProperties", jsontext.Value("false")})
	}
	return appendObject(nil, describe(out, hints)), true
}

func isObject(ms []member) bool {
	t := find(ms, "type")
	return bytes.Contains(t, []byte(`"object"`)) || t == nil && find(ms, "properties") != nil
}

// enforced reports whether the vendor enforces a keyword that depends on its value.
func enforced(m member) bool {
	switch m.name {
	case "minItems":
		return string(m.value) == "0" || string(m.value) == "1"
	case "format":
		formats := []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
		return slices.Contains(formats, string(bytes.Trim(m.value, `"`)))
	}
	return false
}

// describe appends to a schema's description what the vendor does not enforce.
func describe(ms, hints []member) []member {
	hints = slices.DeleteFunc(hints, func(m member) bool { return m.name == "$schema" || m.name == "$id" || m.name == "examples" })
	if len(hints) == 0 {
		return ms
	}
	hint := string(appendObject(nil, hints))
	i := slices.IndexFunc(ms, func(m member) bool { return m.name == "description" && m.value.Kind() == '"' })
	if i < 0 {
		return append(ms, member{"description", openai.AppendString(nil, hint)})
	}
	text, err := jsontext.AppendUnquote(nil, ms[i].value)
	if err == nil {
		ms[i].value = openai.AppendString(nil, string(text)+"\n\n"+hint)
	}
	return ms
}

func narrowEach(object jsontext.Value, depth int) (jsontext.Value, bool) {
	ms := members(object)
	for i := range ms {
		v, ok := narrow(ms[i].value, depth)
		if !ok {
			return nil, false
		}
		ms[i].value = v
	}
	return appendObject(nil, ms), true
}

func narrowAll(array jsontext.Value, depth int) (jsontext.Value, bool) {
	out := []byte{'['}
	for i, v := range elements(array) {
		narrowed, ok := narrow(v, depth)
		if !ok {
			return nil, false
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, narrowed...)
	}
	return append(out, ']'), true
}
