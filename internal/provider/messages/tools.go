package messages

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// maxStrictTools is how many strict tools the vendor takes in one request.
const maxStrictTools = 20

// anyObject is the schema of a tool whose parameters are not known.
const anyObject = `{"type":"object"}`

// tools translates the tools and the choice among them.
func (e *encoder) tools() error {
	strict := 0
	for i := range e.chat.Tools {
		t := &e.chat.Tools[i]
		if t.Type != "function" {
			if err := e.toolType(t.Type, i); err != nil {
				return err
			}
			continue
		}
		out, err := e.tool(t, i, &strict)
		if err != nil {
			return err
		}
		e.out.Tools = append(e.out.Tools, out)
	}
	if len(e.out.Tools) == 0 {
		return e.withoutTools()
	}
	return e.choice()
}

// toolType refuses a tool that is not a function, or notes that it was dropped.
func (e *encoder) toolType(typ string, i int) error {
	param := fmt.Sprintf("tools[%d]", i)
	if e.drop {
		e.dropped(param)
		return nil
	}
	return badValue(param+".type", "Tools of type '%s' are not supported by the provider '%s'. Use type 'function'.", typ, e.vendor)
}

func (e *encoder) tool(t *openai.Tool, i int, strict *int) (tool, error) {
	f := &t.Function
	param := fmt.Sprintf("tools[%d].function", i)
	if f.Name == "" {
		return tool{}, openai.BadRequest(param+".name", "missing_required_parameter", "Missing required parameter: '%s.name'.", param)
	}
	if asked(f.Parameters) && f.Parameters.Kind() != '{' {
		return tool{}, openai.BadRequest(param+".parameters", "invalid_type", "Invalid type for '%s.parameters': expected a JSON Schema object.", param)
	}
	out := tool{Name: e.names.sent(f.Name), Description: f.Description, CacheControl: t.CacheControl}
	schema, also := objectSchema(f.Parameters)
	if also != "" {
		out.Description += "\n\nThe arguments must also match this JSON Schema: " + also
	}
	out.InputSchema = schema
	if f.Strict != nil && *f.Strict {
		narrow, ok := narrowSchema(schema)
		if ok && also == "" && e.can.StructuredOutput && *strict < maxStrictTools {
			out.InputSchema, out.Strict = narrow, true
			*strict++
		} else {
			e.dropped(param + ".strict")
		}
	}
	return out, nil
}

// withoutTools deals with a request that has none. A conversation with calls in it needs definitions even so, of which
// the model may use none.
func (e *encoder) withoutTools() error {
	if c := e.chat.ToolChoice; c != nil && c.Mode != "none" && c.Mode != "auto" {
		return openai.BadRequest("tool_choice", "invalid_value", "Invalid value for 'tool_choice': it is only allowed when 'tools' are specified.")
	}
	for _, name := range e.names.used {
		e.out.Tools = append(e.out.Tools, tool{Name: name, InputSchema: jsontext.Value(anyObject)})
	}
	if len(e.out.Tools) > 0 {
		e.out.ToolChoice = &toolChoice{Type: "none"}
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
		out.Type = "none"
	case "", "auto":
		out.Type = "auto"
	case "required":
		out.Type = "any"
	case "function":
		out.Type, out.Name = "tool", e.names.sent(c.Name)
		if !e.hasTool(out.Name) {
			return openai.BadRequest("tool_choice", "invalid_value", "Tool choice '%s' not found in 'tools' parameter.", c.Name)
		}
	default:
		return badValue("tool_choice", "A 'tool_choice' of '%s' is not supported by the provider '%s'.", c.Mode, e.vendor)
	}
	if c.Allowed != nil {
		if err := e.allow(c.Allowed); err != nil {
			return err
		}
	}
	if out.forces() && e.can.NoForcedTools {
		if err := e.unsupported("tool_choice"); err != nil {
			return err
		}
		out = &toolChoice{Type: "auto"}
	}
	if p := e.chat.ParallelToolCalls; p != nil && !*p && out.Type != "none" {
		out.DisableParallel = true
	}
	if e.chat.ToolChoice != nil || out.DisableParallel { // auto is the vendor's default too
		e.out.ToolChoice = out
	}
	return nil
}

// allow leaves of the tools those that allowed_tools names.
func (e *encoder) allow(names []string) error {
	allowed := map[string]bool{}
	for _, n := range names {
		allowed[identifier(n)] = true
	}
	kept := slices.DeleteFunc(e.out.Tools, func(t tool) bool { return !allowed[t.Name] })
	if len(kept) == 0 {
		return openai.BadRequest("tool_choice", "invalid_value", "None of the allowed tools of 'tool_choice' is in the 'tools' parameter.")
	}
	e.out.Tools = kept
	return nil
}

func (e *encoder) hasTool(name string) bool {
	return slices.ContainsFunc(e.out.Tools, func(t tool) bool { return t.Name == name })
}
