package schema

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ofMoonshot is the Member of Moonshot's rules. Its documentation names the keywords that it knows:
// https://github.com/MoonshotAI/walle
func ofMoonshot(m *Member) Fate {
	switch m.Name {
	case "oneOf":
		m.Name = "anyOf"
		return All
	case "items":
		switch m.Value.Kind() {
		case '[': // one for each place: each place may have any of them
			*m = Member{"items", anyOf(Elements(m.Value))}
			return One
		case '{':
			return One
		}
		return Drop
	case "prefixItems":
		return Hint
	case "const":
		*m = Member{"enum", AppendArray(nil, []jsontext.Value{m.Value})}
		return Keep
	case "pattern":
		return pattern(m)
	case "patternProperties", "dependentSchemas", "if", "then", "else", "not", "propertyNames", "contains",
		"unevaluatedProperties", "unevaluatedItems", "additionalItems":
		return Hint
	}
	if isAnnotation(m.Name) {
		return Drop
	}
	return inner(m)
}

// anyOf returns a schema that takes what any of the schemas takes.
func anyOf(schemas []jsontext.Value) jsontext.Value {
	if len(schemas) == 1 {
		return schemas[0]
	}
	return AppendObject(nil, []Member{{"anyOf", AppendArray(nil, schemas)}})
}

// typesOfBranches moves the type of a schema with anyOf or oneOf into the branches that lack one. Branches that add to
// the properties of the schema stay beside them.
func typesOfBranches(members []Member) []Member {
	members = nullable(members)
	typ := Find(members, "type")
	at := slices.IndexFunc(members, func(m Member) bool { return m.Name == "anyOf" || m.Name == "oneOf" })
	if at < 0 {
		return members
	}
	out := Without(slices.Clone(members), "type")
	if typ == nil {
		return out
	}
	for i := range out {
		if out[i].Name != "anyOf" && out[i].Name != "oneOf" {
			continue
		}
		branches := Elements(out[i].Value)
		for n, b := range branches {
			ms := Members(b)
			if b.Kind() == '{' && !slices.ContainsFunc(ms, saysType) {
				branches[n] = AppendObject(nil, append([]Member{{"type", typ}}, ms...))
			}
		}
		out[i].Value = AppendArray(nil, branches)
	}
	return out
}

// saysType reports whether a member says which types a schema takes.
func saysType(m Member) bool {
	return m.Name == "type" || m.Name == "$ref" || m.Name == "anyOf" || m.Name == "oneOf" || m.Name == "allOf"
}

// typed is the After of Moonshot's rules. Every schema has one type, and its values and keywords are of that type. A
// schema with several becomes one with a branch for each.
func typed(members []Member) []Member {
	members = withKnownProperties(members)
	if slices.ContainsFunc(members, func(m Member) bool { return m.Name != "type" && saysType(m) }) {
		return Without(members, "type")
	}
	types, values := typesOf(Find(members, "type")), Elements(Find(members, "enum"))
	if len(types) == 0 {
		types = []string{typeOf(members)}
	}
	if len(values) > 0 {
		types = typesOfValues(values, types)
	}
	if len(types) == 1 {
		return withType(members, types[0])
	}
	var common, keywords []Member
	for _, m := range members {
		switch m.Name {
		case "type":
		case "title", "description", "default", "$defs":
			common = append(common, m)
		default:
			keywords = append(keywords, m)
		}
	}
	var branches []jsontext.Value
	for _, typ := range types {
		branch := []Member{{"type", typeName(typ)}}
		for _, m := range keywords {
			if m.Name == "enum" {
				m.Value = AppendArray(nil, slices.DeleteFunc(slices.Clone(values), func(v jsontext.Value) bool {
					return !isOfType(v, typ)
				}))
			}
			if m.Name == "enum" && typ != "null" || slices.Contains(aboutType(m.Name), typ) {
				branch = append(branch, m)
			}
		}
		branches = append(branches, AppendObject(nil, branch))
	}
	return append(common, Member{"anyOf", AppendArray(nil, branches)})
}

// withType gives a schema a type.
func withType(members []Member, typ string) []Member {
	for i := range members {
		if members[i].Name == "type" {
			members[i].Value = typeName(typ)
			return members
		}
	}
	return append([]Member{{"type", typeName(typ)}}, members...)
}

// withKnownProperties requires only properties that are there.
func withKnownProperties(members []Member) []Member {
	properties := Members(Find(members, "properties"))
	out := make([]Member, 0, len(members)+1)
	for _, m := range members {
		if m.Name == "required" {
			known := slices.DeleteFunc(Elements(m.Value), func(name jsontext.Value) bool {
				return Find(properties, unquoted(name)) == nil
			})
			if len(known) == 0 {
				continue
			}
			m.Value = AppendArray(nil, known)
		}
		out = append(out, m)
	}
	return out
}

// typesOf returns the types that a schema names, without those that JSON Schema does not have.
func typesOf(v jsontext.Value) []string {
	list := []jsontext.Value{v}
	if v.Kind() == '[' {
		list = Elements(v)
	}
	var types []string
	for _, e := range list {
		typ := strings.ToLower(unquoted(e))
		switch typ {
		case "object", "array", "string", "number", "integer", "boolean", "null":
			types = append(types, typ)
		}
	}
	return types
}

// typesOfValues returns the types of the values of an enumeration, by the names that the schema has for them.
func typesOfValues(values []jsontext.Value, named []string) []string {
	var types []string
	for _, v := range values {
		typ := typeOfValue(v)
		if i := slices.IndexFunc(named, func(t string) bool { return isOfType(v, t) }); i >= 0 {
			typ = named[i]
		}
		if !slices.Contains(types, typ) {
			types = append(types, typ)
		}
	}
	return types
}

// isOfType reports whether a value has a type.
func isOfType(v jsontext.Value, typ string) bool {
	return typeOfValue(v) == typ || typ == "integer" && v.Kind() == '0' && !strings.ContainsAny(string(v), ".eE")
}

// aboutType returns the types that a keyword is about.
func aboutType(keyword string) []string {
	switch keyword {
	case "properties", "required", "additionalProperties", "minProperties", "maxProperties":
		return []string{"object"}
	case "items", "minItems", "maxItems", "uniqueItems":
		return []string{"array"}
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return []string{"number", "integer"}
	case "minLength", "maxLength", "pattern", "format":
		return []string{"string"}
	}
	return nil
}

func typeName(s string) jsontext.Value { return jsontext.Value(`"` + s + `"`) }

// typeOf returns the type that the keywords of a schema are about.
func typeOf(members []Member) string {
	for _, m := range members {
		if values := Elements(m.Value); m.Name == "enum" && len(values) > 0 {
			return typeOfValue(values[0])
		}
		if types := aboutType(m.Name); types != nil {
			return types[0]
		}
	}
	return "string"
}

func typeOfValue(v jsontext.Value) string {
	switch v.Kind() {
	case 'n':
		return "null"
	case '0':
		return "number"
	case 't', 'f':
		return "boolean"
	case '{':
		return "object"
	case '[':
		return "array"
	}
	return "string"
}
