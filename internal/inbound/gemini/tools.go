package gemini

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound/compose"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// searches are Google's tools that search the web. Other vendors have searches of their own.
var searches = []string{"googleSearch", "google_search", "googleSearchRetrieval", "google_search_retrieval"}

// tools appends the functions of a request and the choice among them. Of the tools that Google runs, others have only
// the search.
func (b *builder) tools() error {
	search := false
	for i := range b.Tools {
		for name, v := range b.Tools[i].Others {
			switch {
			case v.Kind() == 'n':
			case slices.Contains(searches, name):
				search = true
			default:
				return openai.CodeUnsupportedValue.On(fmt.Sprintf("tools[%d].%s", i, name),
					"tools[%d].%s: The provider of this model does not have the tool '%s'.", i, name, name)
			}
		}
	}
	if search {
		b.Member("web_search_options", "{}")
	}
	if !slices.ContainsFunc(b.Tools, func(t tool) bool { return len(t.Functions) > 0 }) {
		return nil
	}
	b.Member("tools", "[")
	for i := range b.Tools {
		for n := range b.Tools[i].Functions {
			place := fmt.Sprintf("tools[%d].functionDeclarations[%d]", i, n)
			if err := b.function(place, &b.Tools[i].Functions[n]); err != nil {
				return err
			}
		}
	}
	b.End("]")
	return b.choice()
}

func (b *builder) function(place string, d *declaration) error {
	if d.Name == "" {
		return required(place + ".name")
	}
	b.Begin(`{"type":"function","function":{`)
	b.Text("name", d.Name)
	b.Text("description", d.Description)
	switch {
	case compose.IsAsked(d.JSONSchema):
		b.Raw("parameters", d.JSONSchema)
	case compose.IsAsked(d.Parameters):
		b.Raw("parameters", jsonSchema(d.Parameters))
	default:
		b.Member("parameters", `{"type":"object","properties":{}}`)
	}
	b.End("}}")
	return nil
}

// choice appends which functions the model may or must call.
func (b *builder) choice() error {
	c := &b.ToolConfig.FunctionCalling
	allowed := func(mode string) {
		b.Member("tool_choice", `{"type":"allowed_tools","allowed_tools":{"mode":"`+mode+`","tools":[`)
		for _, name := range c.Allowed {
			b.Begin(`{"type":"function","function":{`)
			b.String("name", name)
			b.End("}}")
		}
		b.End("]}}")
	}
	switch mode := strings.ToUpper(c.Mode); {
	case mode == "", mode == "MODE_UNSPECIFIED", mode == "AUTO", mode == "VALIDATED" && len(c.Allowed) == 0:
	case mode == "VALIDATED":
		allowed("auto")
	case mode == "NONE":
		b.Text("tool_choice", "none")
	case mode != "ANY":
		return openai.CodeInvalidValue.On("toolConfig.functionCallingConfig.mode",
			"toolConfig.functionCallingConfig.mode: Expected AUTO, ANY, NONE or VALIDATED.")
	case len(c.Allowed) == 0:
		b.Text("tool_choice", "required")
	case len(c.Allowed) == 1:
		b.Member("tool_choice", `{"type":"function","function":{`)
		b.String("name", c.Allowed[0])
		b.End("}}")
	default:
		allowed("required")
	}
	return nil
}

// jsonSchema returns one of Google's schemas, which are OpenAPI's with types in upper case, as a JSON Schema.
func jsonSchema(of jsontext.Value) jsontext.Value {
	ms := schema.Members(of)
	out := make([]schema.Member, 0, len(ms))
	nullable := false
	for _, m := range ms {
		switch name := camel(m.Name); name {
		case "type":
			out = append(out, schema.Member{Name: "type", Value: jsontext.Value(strings.ToLower(string(m.Value)))})
		case "nullable":
			nullable = string(m.Value) == "true"
		case "propertyOrdering":
		case "example":
			out = append(out, schema.Member{Name: "examples", Value: append(append(jsontext.Value{'['}, m.Value...), ']')})
		case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties": // numbers as strings
			out = append(out, schema.Member{Name: name, Value: jsontext.Value(strings.Trim(string(m.Value), `"`))})
		case "items":
			out = append(out, schema.Member{Name: name, Value: jsonSchema(m.Value)})
		case "anyOf":
			list := schema.Elements(m.Value)
			for i := range list {
				list[i] = jsonSchema(list[i])
			}
			out = append(out, schema.Member{Name: name, Value: schema.AppendArray(nil, list)})
		case "properties":
			inner := schema.Members(m.Value)
			for i := range inner {
				inner[i].Value = jsonSchema(inner[i].Value)
			}
			out = append(out, schema.Member{Name: name, Value: schema.AppendObject(nil, inner)})
		default:
			out = append(out, schema.Member{Name: name, Value: m.Value})
		}
	}
	if nullable {
		out = withNull(out)
	}
	return schema.AppendObject(nil, out)
}

// withNull lets a schema be null too.
func withNull(of []schema.Member) []schema.Member {
	for i := range of {
		switch of[i].Name {
		case "type":
			of[i].Value = slices.Concat(jsontext.Value{'['}, of[i].Value, jsontext.Value(`,"null"]`))
		case "enum":
			of[i].Value = schema.AppendArray(nil, append(schema.Elements(of[i].Value), jsontext.Value("null")))
		}
	}
	return of
}

// camel returns a name with underscores in camel case.
func camel(name string) string {
	head, rest, _ := strings.Cut(name, "_")
	for word := range strings.SplitSeq(rest, "_") {
		if word != "" {
			head += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return head
}
