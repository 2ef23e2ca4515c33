package messages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// MaxStrictTools is how many strict tools the vendor takes in one request.
const MaxStrictTools = 20

// anyObject is the schema of a tool whose parameters are not known.
const anyObject = `{"type":"object"}`

// tools translates the tools and the choice among them.
func (e *encoder) tools() error {
	strict := 0
	var raw []jsontext.Value // read where it is needed
	for i := range e.chat.Tools {
		t := &e.chat.Tools[i]
		if t.Type == "function" {
			out, err := e.tool(t, i, &strict)
			if err != nil {
				return err
			}
			e.out.Tools = append(e.out.Tools, out)
			continue
		}
		if raw == nil {
			raw = schema.Elements(e.body.Get("tools"))
		}
		if turns.IsSearch(t.Type) && !isDated(t.Type) && e.can.GetWebSearch() {
			e.searchTool(i, raw[i])
			continue
		}
		if err := e.otherTool(t.Type, i, raw[i]); err != nil {
			return err
		}
	}
	none := len(e.out.Tools) == 0
	if none {
		for _, name := range e.names.Used() {
			e.out.Tools = append(e.out.Tools, tool{name: name, inputSchema: jsontext.Value(anyObject)})
		}
	}
	if e.searches() && e.can.GetWebSearch() {
		e.search = searchTool(e.chat.WebSearchOptions, nil)
	}
	if e.search != nil {
		if e.hasTool(searchName) {
			return openai.BadValue("web_search_options",
				"The provider '%s' searches the web with a tool of the name '%s'. Give your own tool another name.", e.Vendor,
				searchName)
		}
		e.out.Tools = append(e.out.Tools, tool{name: searchName, own: e.search})
		none = false
	}
	if none {
		return e.withoutTools()
	}
	return e.choice()
}

// otherTool passes a tool of the vendor's own, whose types have a date in them, and refuses any other that is not a
// function, or notes that it was dropped.
func (e *encoder) otherTool(typ string, i int, raw jsontext.Value) error {
	if typ == "mcp_toolset" || isDated(typ) {
		e.out.Tools = append(e.out.Tools, tool{name: gjson.GetBytes(raw, "name").Str, own: raw})
		return nil
	}
	return e.OtherTool(typ, i, e.HasFunctions(e.chat.Tools))
}

// isDated reports whether a type of tools is one of the vendor's.
func isDated(typ string) bool {
	at := strings.LastIndexByte(typ, '_')
	return at > 0 && len(typ)-at == len("_20250305") && strings.Trim(typ[at+1:], "0123456789") == ""
}

// searchTool takes in a tool for searching the web that is written as OpenAI's responses have it.
func (e *encoder) searchTool(i int, raw jsontext.Value) {
	options, others := turns.SearchOptions(raw)
	var own []schema.Member
	for _, m := range others {
		inner := []schema.Member{m}
		if m.Name == "filters" {
			inner = schema.Members(m.Value)
		}
		for _, m := range inner {
			switch m.Name {
			case "max_uses", "allowed_domains", "blocked_domains", "cache_control":
				own = append(own, m)
			default:
				e.Drop(fmt.Sprintf("tools[%d].%s", i, turns.Identifier(m.Name)))
			}
		}
	}
	e.search = searchTool(options, own)
}

// searchName is the only name that the vendor's tool for searching may have.
const searchName = "web_search"

// searchTool returns the vendor's tool for OpenAI's web_search_options. How much of the web is read is said by the
// number of searches, unless the client says it itself.
func searchTool(options jsontext.Value, own []schema.Member) jsontext.Value {
	ms := []schema.Member{{Name: "type", Value: jsontext.Value(`"web_search_20250305"`)},
		{Name: "name", Value: jsontext.Value(`"` + searchName + `"`)}}
	uses := map[string]string{"low": "1", "medium": "5", "high": "10"}
	if n := uses[gjson.GetBytes(options, "search_context_size").Str]; n != "" && schema.Find(own, "max_uses") == nil {
		ms = append(ms, schema.Member{Name: "max_uses", Value: jsontext.Value(n)})
	}
	if place := schema.Members(jsontext.Value(gjson.GetBytes(options, "user_location.approximate").Raw)); len(place) > 0 {
		place = slices.DeleteFunc(place, func(m schema.Member) bool { return m.Name == "type" || m.Value.Kind() == 'n' })
		place = append([]schema.Member{{Name: "type", Value: jsontext.Value(`"approximate"`)}}, place...)
		ms = append(ms, schema.Member{Name: "user_location", Value: schema.AppendObject(nil, place)})
	}
	return schema.AppendObject(nil, append(ms, own...))
}

func (e *encoder) tool(t *openai.Tool, i int, strict *int) (tool, error) {
	f := &t.Function
	param := fmt.Sprintf("tools[%d].function", i)
	if err := turns.CheckFunction(f, i); err != nil {
		return tool{}, err
	}
	out := tool{name: e.names.Sent(f.Name), description: f.Description, cacheControl: t.CacheControl}
	input, also := schema.Object(f.Parameters)
	if also != "" {
		out.description += "\n\nThe arguments must also match this JSON Schema: " + also
	}
	out.inputSchema = input
	if f.Strict != nil && *f.Strict {
		closed, ok := jsontext.Value(nil), false
		if also == "" && e.can.GetStructuredOutput() && *strict < MaxStrictTools {
			closed, ok = schema.Closed(input)
		}
		if ok {
			out.inputSchema, out.strict = closed, true
			*strict++
		} else {
			e.Drop(param + ".strict")
		}
	}
	return out, nil
}

// withoutTools deals with a request that has none. A conversation with calls in it has definitions even so, which the
// vendor demands, but the model may use none.
func (e *encoder) withoutTools() error {
	if c := e.chat.ToolChoice; c != nil && c.Mode != "none" && c.Mode != "auto" {
		return openai.CodeInvalidValue.On("tool_choice",
			"Invalid value for 'tool_choice': it is only allowed when 'tools' are specified.")
	}
	if len(e.out.Tools) > 0 {
		e.out.ToolChoice = &toolChoice{kind: "none"}
	}
	return nil
}

// choice translates tool_choice and parallel_tool_calls.
func (e *encoder) choice() error {
	c := e.chat.ToolChoice
	if c == nil {
		c = &openai.ToolChoice{}
	}
	out := &toolChoice{}
	switch c.Mode {
	case "none":
		out.kind = "none"
	case "", "auto":
		out.kind = "auto"
	case "required", "any":
		out.kind = "any"
	case "function":
		out.kind, out.name = "tool", e.names.Sent(c.Name)
		if !e.hasTool(out.name) {
			return openai.CodeInvalidValue.On("tool_choice", "Tool choice '%s' not found in 'tools' parameter.",
				c.Name)
		}
	default:
		return openai.BadValue("tool_choice", "A 'tool_choice' of '%s' is not supported by the provider '%s'.", c.Mode,
			e.Vendor)
	}
	if c.Allowed != nil {
		var err error
		if e.out.Tools, err = turns.Allow(e.out.Tools, func(t tool) string { return t.name }, c.Allowed); err != nil {
			return err
		}
	}
	if out.forces() && !able(e.can.ForcedTools) {
		if err := e.Unsupported("tool_choice"); err != nil {
			return err
		}
		out = &toolChoice{kind: "auto"}
	}
	if p := e.chat.ParallelToolCalls; p != nil && !*p && out.kind != "none" {
		out.disableParallel = true
	}
	if e.chat.ToolChoice != nil || out.disableParallel { // auto is the vendor's default too
		e.out.ToolChoice = out
	}
	return nil
}

func (e *encoder) hasTool(name string) bool {
	return slices.ContainsFunc(e.out.Tools, func(t tool) bool { return t.name == name })
}

// searches reports whether the client asks for a web search; {} does.
func (e *encoder) searches() bool {
	return len(e.chat.WebSearchOptions) > 0 && e.chat.WebSearchOptions.Kind() != 'n'
}
