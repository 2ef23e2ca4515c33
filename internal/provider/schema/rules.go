package schema

import (
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Names of rules. The catalog names them for models that other vendors serve.
const (
	Google   = "google"
	Moonshot = "moonshot"
	DeepSeek = "deepseek"
	OpenAI   = "openai"
)

// claude are the rules of Closed, which can fail.
const claude = "claude"

// RulesFor returns the rules of a name, or nil.
func RulesFor(name string) *Rules {
	if name == claude {
		return nil
	}
	return rules[name]
}

var rules = map[string]*Rules{
	// Google understands a part of JSON Schema, and refuses a request for some of the rest: references that go in circles
	// or have company, constants, enumerations of anything but strings and numbers.
	Google: {Inline: true, Merge: true, Anything: "{}", Member: ofGoogle, Before: nullable},
	// Moonshot refuses a type beside anyOf, members beside $ref, references that do not begin with #/$defs/, schemas
	// without a type, keywords beside several types, values that have none of the types, items that are a list, required
	// properties that are not there, and patterns that its checker cannot read. At the root it wants an object.
	Moonshot: {Inline: true, Circles: true, Merge: true, Anything: `{"type":"string"}`, Member: ofMoonshot,
		Before: typesOfBranches, After: typed, ObjectRoot: true},
	// DeepSeek refuses patterns that its checker cannot read, and takes at the root nothing but an object.
	DeepSeek: {Anything: "true", Member: withPatterns, ObjectRoot: true},
	// Claude's vendors enforce closed schemas without a part of JSON Schema.
	claude: {Anything: "true", Member: ofClaude, Close: closeObject},
	// OpenAI refuses an object without properties, an array without items, and patterns with lookaround.
	// It takes at the root nothing but an object, and strict schemas only if they say what every object has.
	OpenAI:  {Anything: "{}", Member: withPatterns, After: complete, ObjectRoot: true, Strict: strict},
	"azure": {Anything: "{}", Member: withPatterns, After: complete, ObjectRoot: true, Strict: strict},
}

// ofGoogle is the Member of Google's rules.
func ofGoogle(m *Member) Fate {
	switch m.Name {
	case "type", "title", "description", "required", "minItems", "maxItems", "minimum", "maximum", "propertyOrdering":
		return Keep
	case "format":
		if slices.Contains([]string{"int32", "int64", "float", "double", "date-time", "date", "time", "duration", "enum"},
			unquoted(m.Value)) {
			return Keep
		}
		return Hint
	case "properties":
		return Each
	case "items", "additionalProperties":
		switch k := m.Value.Kind(); {
		case k == '{':
			return One
		case k == '[': // of before 2020: one for each place
			m.Name = "prefixItems"
			return All
		case m.Name == "items":
			return Drop
		}
		return Keep
	case "anyOf", "prefixItems":
		return All
	case "oneOf":
		m.Name = "anyOf"
		return All
	case "enum":
		var ok bool
		if m.Value, ok = enumeration(Elements(m.Value)); !ok {
			return Hint
		}
		return Keep
	case "const":
		if value, ok := enumeration([]jsontext.Value{m.Value}); ok {
			*m = Member{"enum", value}
			return Keep
		}
		return Hint
	case "default": // which is worth knowing
		if m.Value.Kind() == 'n' {
			return Drop
		}
		return Hint
	}
	if isAnnotation(m.Name) || m.Name == "allOf" {
		return Drop
	}
	return Hint
}

// inner is the Member of rules that leave keywords as they are. It finds the schemas within.
func inner(m *Member) Fate {
	switch m.Name {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		return Each
	case "items":
		return Several
	case "additionalProperties", "unevaluatedProperties":
		if m.Value.Kind() != '{' {
			return Keep
		}
		return One
	case "additionalItems", "unevaluatedItems", "contains", "not", "if", "then", "else", "propertyNames":
		if m.Value.Kind() != '{' {
			return Keep
		}
		return One
	case "anyOf", "oneOf", "allOf", "prefixItems":
		return All
	}
	return Keep
}

// withPatterns is the Member of rules of vendors that refuse patterns that their checker cannot read.
func withPatterns(m *Member) Fate {
	switch m.Name {
	case "pattern":
		return pattern(m)
	case "patternProperties":
		for _, p := range Members(m.Value) {
			if !readable(p.Name) {
				return Hint
			}
		}
	}
	return inner(m)
}

// pattern decides about a pattern.
func pattern(m *Member) Fate {
	if readable(unquoted(m.Value)) {
		return Keep
	}
	return Hint
}

// readable reports whether checkers without lookaround and back references can read a regular expression.
func readable(expression string) bool {
	if strings.ContainsRune(expression, 0) || strings.Contains(expression, `\0`) || strings.Contains(expression, `\x00`) {
		return false
	}
	_, err := regexp.Compile(expression)
	return err == nil
}

// complete adds properties to objects and items to arrays that lack them.
func complete(members []Member) []Member {
	typ := string(Find(members, "type"))
	switch {
	case strings.Contains(typ, `"object"`) && Find(members, "properties") == nil:
		return append(members, Member{"properties", jsontext.Value("{}")})
	case strings.Contains(typ, `"array"`) && Find(members, "items") == nil:
		return append(members, Member{"items", jsontext.Value("{}")})
	}
	return members
}

// strict reports whether OpenAI takes a schema for strict tools and answers: every object is closed, and requires each
// of its properties.
func strict(text jsontext.Value) bool {
	ok := true
	check := func(members []Member) []Member {
		properties := Members(Find(members, "properties"))
		required := map[string]bool{}
		for _, name := range Elements(Find(members, "required")) {
			required[unquoted(name)] = true
		}
		isObject := strings.Contains(string(Find(members, "type")), `"object"`) || len(properties) > 0
		ok = ok && (!isObject || string(Find(members, "additionalProperties")) == "false")
		for _, p := range properties {
			ok = ok && required[p.Name]
		}
		for _, m := range members {
			switch m.Name {
			case "allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties":
				ok = false
			}
		}
		return members
	}
	Clean(text, &Rules{Anything: "{}", Member: inner, After: check}, 0)
	return ok
}
