package turns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// IsSearch reports whether tools of a type search the web, by the names in OpenAI's responses and Anthropic's API:
// web_search, web_search_preview, web_search_2025_08_26, web_search_20250305.
func IsSearch(typ string) bool {
	rest, ok := strings.CutPrefix(typ, "web_search")
	return ok && (rest == "" || rest == "_preview" || rest[0] == '_' && strings.Trim(strings.TrimPrefix(rest, "_preview"),
		"_0123456789") == "")
}

// OtherTool refuses the i-th tool of a request, whose type the vendor lacks, or records that it was dropped. Coding
// agents offer a search of the web to every model, so that it is dropped from a translated request if functions are
// left.
func (o *Omitted) OtherTool(typ string, i int, functions bool) error {
	param := fmt.Sprintf("tools[%d]", i)
	if o.Drops || o.Translated && functions && IsSearch(typ) {
		o.Drop(param)
		return nil
	}
	return openai.BadValue(param+".type",
		"Tools of type '%s' are not supported by the provider '%s'. Use type 'function'.", typ, o.Vendor)
}

// HasFunctions reports whether there is a function among the tools of a request. It looks once, because it is asked
// for each of the others.
func (o *Omitted) HasFunctions(tools []openai.Tool) bool {
	if !o.looked {
		o.looked = true
		o.functions = slices.ContainsFunc(tools, func(t openai.Tool) bool { return t.Type == "function" })
	}
	return o.functions
}

// SearchOptions converts a web search tool to web_search_options of chat completions, which only have another
// form of the user's location. It also returns the tool's other members.
func SearchOptions(tool jsontext.Value) (options jsontext.Value, others []schema.Member) {
	var ms []schema.Member
	for _, m := range schema.Members(tool) {
		switch m.Name {
		case "type", "name":
		case "search_context_size":
			ms = append(ms, m)
		case "user_location":
			ms = append(ms, schema.Member{Name: m.Name, Value: place(m.Value)})
		default:
			others = append(others, m)
		}
	}
	return schema.AppendObject(nil, ms), others
}

// place wraps the user's location in a member approximate.
func place(v jsontext.Value) jsontext.Value {
	ms := schema.Members(v)
	if v.Kind() != '{' || schema.Find(ms, "approximate") != nil {
		return v
	}
	var known []schema.Member
	for _, m := range ms {
		if m.Name != "type" {
			known = append(known, m)
		}
	}
	return schema.AppendObject(nil, []schema.Member{
		{Name: "type", Value: jsontext.Value(`"approximate"`)},
		{Name: "approximate", Value: schema.AppendObject(nil, known)},
	})
}
