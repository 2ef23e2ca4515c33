package schema

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// A Fate is what becomes of a keyword of a schema.
type Fate uint8

// The fates of keywords. The value of a keyword that is kept may be a schema, or have schemas.
const (
	Keep    Fate = iota // as it is
	Drop                // nobody needs it
	Hint                // the vendor does not enforce it: the description tells the model
	One                 // its value is a schema
	Each                // its value is an object of schemas
	All                 // its value is an array of schemas
	Several             // its value is a schema, or an array of schemas
	Fail                // the schema cannot be expressed
)

// Rules are a vendor's restrictions of JSON Schema. There is one list of them for all vendors: see RulesFor.
type Rules struct {
	// Inline replaces references by their definitions. A reference in a circle becomes Anything, or stays if
	// Circles is set, and then refers into $defs.
	Inline, Circles bool
	// Merge merges the schemas of allOf into one.
	Merge bool
	// Anything is the schema that takes everything, in place of true.
	Anything string
	// Member decides about a keyword, and may change it.
	Member func(m *Member) Fate
	// Before and After change the members of a schema, before and after Member has seen them. They may be nil.
	Before, After func(members []Member) []Member
	// Close closes an object, after Member, or reports that it cannot be closed. It may be nil. If it is set, schemas
	// that cannot be expressed are failures.
	Close func(members []Member) ([]Member, bool)
	// ObjectRoot wants an object at the root, without combinations of schemas: see Object.
	ObjectRoot bool
	// Strict reports whether a schema can be enforced. Nil: the vendor decides.
	Strict func(text jsontext.Value) bool
}

// What takes the place of references in one schema is bounded in bytes.
const maxClean = 256 << 10

// anyObject replaces a reference that cannot be resolved.
const anyObject = `{"type":"object"}`

// A cleaner rewrites one schema.
type cleaner struct {
	rules      *Rules
	references *References
	resolved   []string // the references that are being replaced, the outermost first
	circles    []string // references that stay
	size       int      // of the replacements
	most       int
	failed     bool
}

// Clean rewrites a schema as a vendor takes it. Descriptions tell the model what the vendor does not enforce. It
// also returns the size of the replacements of references, which is not much more than most.
func Clean(text jsontext.Value, rules *Rules, most int) (cleaned jsontext.Value, replaced int) {
	c := &cleaner{rules: rules, references: NewReferences(text), most: min(maxClean, most)}
	cleaned = c.schema(text, MaxDepth)
	if len(c.circles) > 0 {
		cleaned = c.withDefinitions(cleaned)
	}
	return cleaned, c.size
}

// schema rewrites one schema and those within it, down to depth levels.
func (c *cleaner) schema(text jsontext.Value, depth int) jsontext.Value {
	c.failed = c.failed || c.rules.Close != nil && (depth == 0 || text.Kind() != '{' && text.Kind() != 't')
	switch text.Kind() {
	case 't', 'f':
		return jsontext.Value(c.rules.Anything) // there is no way to say none
	case '{':
	default:
		return jsontext.Value(c.rules.Anything) // it is no schema
	}
	if depth == 0 || c.failed {
		return jsontext.Value(anyObject)
	}
	members := valid(Members(text))
	if ref := Find(members, "$ref"); ref != nil && c.rules.Inline {
		return c.reference(unquoted(ref), members, depth)
	}
	if all := Find(members, "allOf"); all != nil && c.rules.Merge {
		members = c.merge(members, Elements(all))
		if ref := Find(members, "$ref"); ref != nil && c.rules.Inline {
			return c.reference(unquoted(ref), members, depth)
		}
	}
	if c.rules.Before != nil {
		members = c.rules.Before(members)
	}
	out, hints := make([]Member, 0, len(members)), []Member(nil)
	for _, m := range members {
		switch fate := c.rules.Member(&m); fate {
		case Drop:
		case Fail:
			c.failed = true
		case Hint:
			hints = append(hints, m)
		default:
			m.Value = c.within(m.Value, fate, depth)
			out = append(out, m)
		}
	}
	if c.rules.Close != nil {
		var ok bool
		out, ok = c.rules.Close(out)
		c.failed = c.failed || !ok
	}
	if len(hints) > 0 {
		out = Describe(out, string(AppendObject(nil, hints)))
	}
	if c.rules.After != nil {
		out = c.rules.After(out)
	}
	return AppendObject(nil, out)
}

// valid returns the members without those whose values JSON Schema does not have there. Vendors that check schemas
// refuse a request for one of them.
func valid(members []Member) []Member {
	return slices.DeleteFunc(members, func(m Member) bool {
		switch kind := m.Value.Kind(); m.Name {
		case "required":
			return kind != '['
		case "enum", "anyOf", "oneOf", "allOf":
			return kind != '[' || len(Elements(m.Value)) == 0
		case "properties", "$defs", "definitions", "patternProperties":
			return kind != '{'
		case "description", "title", "pattern":
			return kind != '"'
		case "type":
			return kind != '"' && kind != '['
		}
		return false
	})
}

// within rewrites the schemas of a keyword.
func (c *cleaner) within(v jsontext.Value, fate Fate, depth int) jsontext.Value {
	switch {
	case fate == One || fate == Several && v.Kind() != '[':
		return c.schema(v, depth-1)
	case fate == Each && v.Kind() == '{':
		members := Members(v)
		for i := range members {
			members[i].Value = c.schema(members[i].Value, depth-1)
		}
		return AppendObject(nil, members)
	case (fate == All || fate == Several) && v.Kind() == '[':
		elements := Elements(v)
		for i := range elements {
			elements[i] = c.schema(elements[i], depth-1)
		}
		return AppendArray(nil, elements)
	}
	return v
}

// reference replaces a reference by its definition, with the members beside it. A reference in a circle becomes
// any object or stays, and one without room becomes any object.
func (c *cleaner) reference(ref string, members []Member, depth int) jsontext.Value {
	if c.rules.Circles && slices.Contains(c.resolved, ref) && c.references.Lookup(ref).Kind() == '{' {
		i := slices.Index(c.circles, ref)
		switch {
		case i < 0 && len(c.circles) == maxCircles:
			return jsontext.Value(anyObject)
		case i < 0:
			i, c.circles = len(c.circles), append(c.circles, ref)
		}
		return jsontext.Value(`{"$ref":"#/$defs/` + circle(i) + `"}`)
	}
	target := c.target(ref)
	if target.Kind() != '{' {
		return jsontext.Value(anyObject)
	}
	c.resolved = append(c.resolved, ref)
	defer func() { c.resolved = c.resolved[:len(c.resolved)-1] }()
	beside := slices.DeleteFunc(slices.Clone(members), func(m Member) bool {
		return m.Name == "$ref" || m.Name == "$defs" || m.Name == "definitions"
	})
	if len(beside) > 0 {
		var o overlaid
		o.add(Members(target))
		o.add(beside)
		target = AppendObject(nil, o.whole())
	}
	return c.schema(target, depth-1)
}

// circle returns the name of the definition for the i-th reference in a circle.
func circle(i int) string { return "circle" + string(rune('a'+i)) }

// maxCircles is how many references in a circle a schema may have.
const maxCircles = 26

// withDefinitions adds the definitions of the references that stayed.
func (c *cleaner) withDefinitions(cleaned jsontext.Value) jsontext.Value {
	var definitions []Member
	for i := 0; i < len(c.circles); i++ { // a definition may have further ones
		c.resolved = []string{c.circles[i]}
		target := c.schema(c.references.Lookup(c.circles[i]), MaxDepth)
		definitions = append(definitions, Member{circle(i), target})
	}
	return AppendObject(nil, append(Members(cleaned), Member{"$defs", AppendObject(nil, definitions)}))
}

// target returns what a reference refers to, or nil if that must not take its place.
func (c *cleaner) target(ref string) jsontext.Value {
	if c.size > c.most || slices.Contains(c.resolved, ref) {
		return nil
	}
	target := c.references.Lookup(ref)
	c.size += len(target)
	return target
}

// merge returns the members of a schema with the members of its allOf, its own uppermost.
func (c *cleaner) merge(members []Member, all []jsontext.Value) []Member {
	var merged overlaid
	for _, v := range all {
		of := Members(v)
		if ref := unquoted(Find(of, "$ref")); ref != "" && len(all) > 1 {
			if target := c.target(ref); target != nil {
				merged.add(Members(target))
				of = slices.DeleteFunc(of, func(m Member) bool { return m.Name == "$ref" })
			}
		}
		merged.add(of)
	}
	merged.add(slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Name == "allOf" }))
	return merged.whole()
}

// enumeration returns the values as an enumeration of strings and numbers. null is left out: the type tells it. It
// reports false if nothing is left, or if there is more.
func enumeration(values []jsontext.Value) (jsontext.Value, bool) {
	kept := slices.DeleteFunc(values, func(v jsontext.Value) bool { return v.Kind() == 'n' })
	other := func(v jsontext.Value) bool { return v.Kind() != '"' && v.Kind() != '0' }
	if len(kept) == 0 || slices.ContainsFunc(kept, other) {
		return AppendArray(nil, values), false
	}
	return AppendArray(nil, kept), true
}

// nullable adds null to the type of a schema that says so as OpenAPI does.
func nullable(members []Member) []Member {
	if string(Find(members, "nullable")) != "true" {
		return members
	}
	out := slices.Clone(members)
	for i, m := range out {
		if m.Name == "type" && m.Value.Kind() == '"' && !bytes.Equal(m.Value, []byte(`"null"`)) {
			out[i].Value = slices.Concat([]byte{'['}, m.Value, []byte(`,"null"]`))
		}
	}
	return out
}

func unquoted(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	return gjson.Parse(string(v)).Str
}

// isAnnotation reports whether a keyword says nothing about values.
func isAnnotation(name string) bool {
	switch name {
	case "$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "examples", "example", "discriminator",
		"deprecated", "readOnly", "writeOnly", "xml", "externalDocs", "nullable":
		return true
	}
	return strings.HasPrefix(name, "x-")
}
