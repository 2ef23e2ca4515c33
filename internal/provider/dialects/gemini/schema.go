package gemini

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// The vendor takes JSON Schemas, but understands a part of JSON Schema, and refuses a request for some of the rest:
// references that go in circles or have company, constants, enumerations of anything but strings and numbers.

// What takes the place of references in one schema, and in those of a request, is bounded in bytes.
const (
	maxClean    = 256 << 10
	maxAllClean = 4 << 20
)

// A cleaner rewrites one schema.
type cleaner struct {
	references *schema.References
	resolved   []string // the references that are being replaced, the outermost first
	size       int      // of what has taken their place
	most       int
}

// anything is what a reference becomes that cannot be replaced.
const anything = `{"type":"object"}`

// cleanSchema rewrites the schema at param as the vendor takes it. What it does not enforce is told to the model in
// descriptions.
func (e *encoder) cleanSchema(text jsontext.Value, param string) (jsontext.Value, error) {
	c := &cleaner{references: schema.NewReferences(text), most: min(maxClean, maxAllClean-e.replaced)}
	cleaned := c.schema(text, schema.MaxDepth)
	if e.replaced += c.size; e.replaced > maxAllClean {
		return nil, openai.BadRequest(param, openai.CodeInvalidJSONSchema,
			"Invalid schema for '%s': with it, the references in the schemas of the request stand for more than %d bytes. Use fewer references, or smaller definitions.", param, maxAllClean)
	}
	return cleaned, nil
}

// schema rewrites one schema and those within it, down to depth levels.
func (c *cleaner) schema(text jsontext.Value, depth int) jsontext.Value {
	switch text.Kind() {
	case 't', 'f':
		return jsontext.Value("{}") // there is no way to say none
	case '{':
	default:
		return text
	}
	if depth == 0 {
		return jsontext.Value(anything)
	}
	members := schema.Members(text)
	if ref := schema.Find(members, "$ref"); ref != nil {
		return c.reference(unquote(ref), members, depth)
	}
	if all := schema.Find(members, "allOf"); all != nil {
		members = c.merge(members, schema.Elements(all))
		if ref := schema.Find(members, "$ref"); ref != nil {
			return c.reference(unquote(ref), members, depth)
		}
	}
	out, hints := make([]schema.Member, 0, len(members)), []schema.Member(nil)
	for _, m := range members {
		m, keep, hint := c.member(m, depth)
		switch {
		case keep:
			out = append(out, m)
		case hint:
			hints = append(hints, m)
		}
	}
	if len(hints) > 0 {
		out = schema.Describe(out, string(schema.AppendObject(nil, hints)))
	}
	return schema.AppendObject(nil, nullable(members, out))
}

// member rewrites one member of a schema. keep says that it stays; hint, that the model is to be told of it.
func (c *cleaner) member(m schema.Member, depth int) (out schema.Member, keep, hint bool) {
	switch m.Name {
	case "type", "title", "description", "required", "minItems", "maxItems", "minimum", "maximum", "propertyOrdering":
		return m, true, false
	case "format":
		known := slices.Contains([]string{"int32", "int64", "float", "double", "date-time", "date", "time", "duration",
			"enum"}, unquote(m.Value))
		return m, known, !known
	case "properties":
		m.Value = c.each(m.Value, depth)
		return m, true, false
	case "items", "additionalProperties":
		if k := m.Value.Kind(); k == '{' {
			m.Value = c.schema(m.Value, depth-1)
		} else if k == '[' { // of before 2020: one for each place
			m.Name, m.Value = "prefixItems", c.all(m.Value, depth)
		} else if m.Name == "items" {
			return m, false, false
		}
		return m, true, false
	case "anyOf", "oneOf", "prefixItems":
		if m.Name == "oneOf" {
			m.Name = "anyOf"
		}
		m.Value = c.all(m.Value, depth)
		return m, true, false
	case "enum":
		m.Value, keep = enumeration(schema.Elements(m.Value))
		return m, keep, !keep
	case "const":
		if value, ok := enumeration([]jsontext.Value{m.Value}); ok {
			return schema.Member{Name: "enum", Value: value}, true, false
		}
		return m, false, true
	case "default": // which is worth knowing
		return m, false, m.Value.Kind() != 'n'
	case "$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "allOf", "nullable", "examples", "example",
		"discriminator",
		"deprecated", "readOnly", "writeOnly", "xml", "externalDocs":
		return m, false, false
	}
	return m, false, !strings.HasPrefix(m.Name, "x-")
}

func (c *cleaner) each(object jsontext.Value, depth int) jsontext.Value {
	members := schema.Members(object)
	for i := range members {
		members[i].Value = c.schema(members[i].Value, depth-1)
	}
	return schema.AppendObject(nil, members)
}

func (c *cleaner) all(array jsontext.Value, depth int) jsontext.Value {
	elements := schema.Elements(array)
	for i := range elements {
		elements[i] = c.schema(elements[i], depth-1)
	}
	return schema.AppendArray(nil, elements)
}

// reference puts what a reference refers to in its place; members beside it are added. One that goes in a circle
// becomes any object, and so does one for which there is no room.
func (c *cleaner) reference(ref string, members []schema.Member, depth int) jsontext.Value {
	target := c.target(ref)
	if target.Kind() != '{' {
		return jsontext.Value(anything)
	}
	c.resolved = append(c.resolved, ref)
	defer func() { c.resolved = c.resolved[:len(c.resolved)-1] }()
	beside := slices.DeleteFunc(slices.Clone(members), func(m schema.Member) bool {
		return m.Name == "$ref" || m.Name == "$defs" || m.Name == "definitions"
	})
	if len(beside) > 0 {
		var o overlaid
		o.add(schema.Members(target))
		o.add(beside)
		target = schema.AppendObject(nil, o.whole())
	}
	return c.schema(target, depth-1)
}

// target returns what a reference refers to, or nil where that must not take its place.
func (c *cleaner) target(ref string) jsontext.Value {
	if c.size > c.most || slices.Contains(c.resolved, ref) {
		return nil
	}
	target := c.references.Lookup(ref)
	c.size += len(target)
	return target
}

// merge returns the members of a schema with those of its allOf, its own uppermost.
func (c *cleaner) merge(members []schema.Member, all []jsontext.Value) []schema.Member {
	var merged overlaid
	for _, v := range all {
		of := schema.Members(v)
		if ref := unquote(schema.Find(of, "$ref")); ref != "" && len(all) > 1 {
			if target := c.target(ref); target != nil {
				merged.add(schema.Members(target))
				of = slices.DeleteFunc(of, func(m schema.Member) bool { return m.Name == "$ref" })
			}
		}
		merged.add(of)
	}
	merged.add(slices.DeleteFunc(slices.Clone(members), func(m schema.Member) bool { return m.Name == "allOf" }))
	return merged.whole()
}

// enumeration returns the values as an enumeration that the vendor takes, which has strings and numbers. null is left
// out: the type tells it. It reports false where nothing is left, or where there is more.
func enumeration(values []jsontext.Value) (jsontext.Value, bool) {
	kept := slices.DeleteFunc(values, func(v jsontext.Value) bool { return v.Kind() == 'n' })
	other := func(v jsontext.Value) bool { return v.Kind() != '"' && v.Kind() != '0' }
	if len(kept) == 0 || slices.ContainsFunc(kept, other) {
		return schema.AppendArray(nil, values), false
	}
	return schema.AppendArray(nil, kept), true
}

// nullable adds null to the type of a schema that says so as OpenAPI does.
func nullable(before, out []schema.Member) []schema.Member {
	if string(schema.Find(before, "nullable")) != "true" {
		return out
	}
	for i, m := range out {
		if m.Name == "type" && m.Value.Kind() == '"' && !bytes.Equal(m.Value, []byte(`"null"`)) {
			out[i].Value = slices.Concat([]byte{'['}, m.Value, []byte(`,"null"]`))
		}
	}
	return out
}
