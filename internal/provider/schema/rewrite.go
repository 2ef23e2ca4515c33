package schema

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
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
	c := &cleaner{rules: rules[claude], references: NewReferences(text)}
	out := c.schema(text, MaxDepth)
	if c.failed || recursive(text) {
		return nil, false
	}
	return out, true
}

// ofClaude is the Member of the rules for schemas that Claude's vendors enforce.
func ofClaude(m *Member) Fate {
	switch m.Name {
	case "properties", "$defs", "definitions":
		if m.Value.Kind() != '{' {
			return Fail
		}
		return Each
	case "items":
		if m.Value.Kind() == '[' {
			return Fail
		}
		return One
	case "anyOf", "allOf", "oneOf":
		if m.Name == "oneOf" {
			m.Name = "anyOf"
		}
		if m.Value.Kind() != '[' {
			return Fail
		}
		return All
	case "additionalProperties":
		if string(m.Value) != "false" {
			return Fail
		}
		return Keep
	case "patternProperties", "propertyNames", "not", "if", "then", "else", "prefixItems", "dependentSchemas",
		"unevaluatedProperties":
		return Fail
	case "$schema", "$id", "examples":
		return Drop
	case "description":
		if m.Value.Kind() != '"' {
			return Drop
		}
		return Keep
	case "type", "$ref", "enum", "const", "title", "default", "required":
		return Keep
	}
	if enforced(m.Name, string(m.Value)) {
		return Keep
	}
	return Hint
}

// closeObject closes an object. One that takes any members cannot be closed.
func closeObject(members []Member) ([]Member, bool) {
	has := func(name string) bool { return Find(members, name) != nil }
	typ, closed := string(Find(members, "type")), has("additionalProperties")
	isObject := strings.Contains(typ, `"object"`) || typ == "" && has("properties")
	if isObject && !closed && !has("properties") && !has("anyOf") && !has("allOf") && !has("$ref") {
		return members, false
	}
	members = Without(members, "additionalProperties")
	if isObject {
		members = append(members, Member{"additionalProperties", jsontext.Value("false")})
	}
	return members, true
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
