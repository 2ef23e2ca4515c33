package schema

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ rules, name, given, want string }{
		{Moonshot, "a type beside anyOf", `{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"type":"null"}]}`,
			`{"properties":{"a":{"type":"string"}},"anyOf":[{"type":"object"},{"type":"null"}]}`},
		{Moonshot, "a type beside oneOf", `{"properties":{"a":{"type":["string","number"],"oneOf":[{"minLength":1},{"$ref":"#/$defs/n"}]}},"$defs":{"n":{"type":"number"}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"anyOf":[{"type":"string","minLength":1},{"type":"number"}]},{"type":"number"}]}}}`},
		{Moonshot, "keywords beside several types", `{"type":"object","properties":{"a":{"type":["string","null"],"minLength":1,"description":"d","default":null},"b":{"type":["object","null"],"properties":{"x":{}},"additionalProperties":false},"c":{"type":["array","string"],"items":{"type":"integer"},"maxLength":9}}}`,
			`{"type":"object","properties":{"a":{"description":"d","default":null,"anyOf":[{"type":"string","minLength":1},{"type":"null"}]},"b":{"anyOf":[{"type":"object","properties":{"x":{"type":"string"}},"additionalProperties":false},{"type":"null"}]},"c":{"anyOf":[{"type":"array","items":{"type":"integer"}},{"type":"string","maxLength":9}]}}}`},
		{Moonshot, "values of several types", `{"type":"object","properties":{"a":{"enum":["x",1,null]},"b":{"type":"string","enum":["x",null]},"c":{"type":["integer","null"],"enum":[1,2]},"d":{"const":null}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string","enum":["x"]},{"type":"number","enum":[1]},{"type":"null"}]},"b":{"anyOf":[{"type":"string","enum":["x"]},{"type":"null"}]},"c":{"type":"integer","enum":[1,2]},"d":{"type":"null","enum":[null]}}}`},
		{Moonshot, "types that there are not", `{"type":"OBJECT","properties":{"a":{"type":"any"},"b":{"type":["number"]},"c":{"type":[]}}}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"number"},"c":{"type":"string"}}}`},
		{Moonshot, "required properties that are not there", `{"type":"object","properties":{"a":{"type":"object","properties":{"x":{"type":"string"}},"anyOf":[{"required":["x"]},{"required":["y"]}]}},"required":["a","b"]}`,
			`{"type":"object","properties":{"a":{"properties":{"x":{"type":"string"}},"anyOf":[{"type":"object"},{"type":"object"}]}},"required":["a"]}`},
		{Moonshot, "what is no JSON Schema", `{"type":"object","properties":{"a":{"type":"string","required":true,"description":1},"b":"string","c":{"enum":[]},"d":{"anyOf":[]},"e":{"properties":[]}}}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"},"d":{"type":"string"},"e":{"type":"string"}}}`},
		{OpenAI, "what is no JSON Schema", `{"type":"object","properties":{"a":{"type":"string","required":true,"enum":[]},"b":"string"}}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{}}}`},
		{OpenAI, "lookaround", `{"type":"object","properties":{"a":{"type":"string","pattern":"^(?!__).+$"},"pattern":{"type":"string","pattern":"^a$"}}}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"{\"pattern\":\"^(?!__).+$\"}"},"pattern":{"type":"string","pattern":"^a$"}}}`},
		{Moonshot, "members beside a reference", `{"type":"object","properties":{"p":{"$ref":"#/$defs/P","description":"the p"}},"$defs":{"P":{"type":"object","properties":{"x":{"type":"string"}}}}}`,
			`{"type":"object","properties":{"p":{"type":"object","properties":{"x":{"type":"string"}},"description":"the p"}}}`},
		{Moonshot, "a reference that is not into $defs", `{"type":"object","properties":{"p":{"$ref":"#/definitions/P"},"q":{"$ref":"#/properties/p"}},"definitions":{"P":{"type":"string"}}}`,
			`{"type":"object","properties":{"p":{"type":"string"},"q":{"type":"string"}}}`},
		{Moonshot, "a reference in a circle", `{"type":"object","properties":{"next":{"$ref":"#/definitions/N","description":"d"}},"definitions":{"N":{"type":"object","properties":{"next":{"$ref":"#/definitions/N","description":"n"}}}}}`,
			`{"type":"object","properties":{"next":{"type":"object","properties":{"next":{"$ref":"#/$defs/circlea"}},"description":"d"}},"$defs":{"circlea":{"type":"object","properties":{"next":{"$ref":"#/$defs/circlea"}}}}}`},
		{Moonshot, "a reference to nothing", `{"type":"object","properties":{"p":{"$ref":"https://x/y"}}}`,
			`{"type":"object","properties":{"p":{"type":"object"}}}`},
		{Moonshot, "no type", `{"type":"object","properties":{"a":{"description":"any"},"b":{"enum":[1,2]},"c":{"properties":{}},"d":{"items":{}},"e":true,"f":{"const":true},"g":{"minimum":1}}}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"any"},"b":{"type":"number","enum":[1,2]},"c":{"type":"object","properties":{}},"d":{"type":"array","items":{"type":"string"}},"e":{"type":"string"},"f":{"type":"boolean","enum":[true]},"g":{"type":"number","minimum":1}}}`},
		{Moonshot, "a tuple", `{"type":"array","items":[{"type":"string"},{"type":"number"}]}`,
			`{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]}}`},
		{Moonshot, "patterns", `{"type":"object","properties":{"a":{"type":"string","pattern":"^(?!x)[^\\u0000]*$"},"b":{"type":"string","pattern":"^[a-z]+$"},"c":{"type":"string","pattern":"\\0","description":"d"}}}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"{\"pattern\":\"^(?!x)[^\\\\u0000]*$\"}"},"b":{"type":"string","pattern":"^[a-z]+$"},"c":{"type":"string","description":"d\n\n{\"pattern\":\"\\\\0\"}"}}}`},
		{Moonshot, "allOf", `{"type":"object","allOf":[{"properties":{"a":{"type":"string"}}},{"required":["a"]}]}`,
			`{"properties":{"a":{"type":"string"}},"required":["a"],"type":"object"}`},
		{DeepSeek, "patterns alone", `{"type":"object","properties":{"a":{"$ref":"#/$defs/A","description":"d"},"b":{}},"$defs":{"A":{"type":"string","pattern":"(?=x)"}},"anyOf":[{"required":["a"]}]}`,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/A","description":"d"},"b":{}},"$defs":{"A":{"type":"string","description":"{\"pattern\":\"(?=x)\"}"}},"anyOf":[{"required":["a"]}]}`},
		{OpenAI, "what is missing", `{"type":"object"}`, `{"type":"object","properties":{}}`},
		{OpenAI, "what is missing within", `{"type":"object","properties":{"tags":{"type":"array"},"o":{"type":["object","null"]},"t":{"type":"array","items":{"type":"array"}}},"$defs":{"x":{"type":"object"}}}`,
			`{"type":"object","properties":{"tags":{"type":"array","items":{}},"o":{"type":["object","null"],"properties":{}},"t":{"type":"array","items":{"type":"array","items":{}}}},"$defs":{"x":{"type":"object","properties":{}}}}`},
	} {
		t.Run(c.rules+"/"+c.name, func(t *testing.T) {
			got, _ := Clean(jsontext.Value(c.given), RulesFor(c.rules), 1<<20)
			require.Equal(t, c.want, string(got))
			again, _ := Clean(got, RulesFor(c.rules), 1<<20)
			if c.name != "a reference in a circle" {
				require.Equal(t, c.want, string(again), "what is clean stays as it is")
			}
		})
	}
}
