package converse

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// noCalls is said if a conversation has calls, so that the vendor wants tools, and the client wants none.
const noCalls = "Do not call any tool. Answer with text."

// tools translates the tools and the choice among them.
func (e *encoder) tools() error {
	strict := 0
	for i := range e.chat.Tools {
		t := &e.chat.Tools[i]
		if t.Type != "function" {
			if err := e.OtherTool(t.Type, i, e.HasFunctions(e.chat.Tools)); err != nil {
				return err
			}
			continue
		}
		if err := e.tool(t, i, &strict); err != nil {
			return err
		}
	}
	choice := e.chat.ToolChoice
	if choice == nil {
		choice = &openai.ToolChoice{}
	}
	if e.out.ToolConfig == nil {
		if choice.Mode != "" && choice.Mode != "none" && choice.Mode != "auto" {
			return openai.CodeInvalidValue.On("tool_choice",
				"Invalid value for 'tool_choice': it is only allowed when 'tools' are specified.")
		}
		e.noTools()
		return nil
	}
	return e.choice(choice)
}

func (e *encoder) tool(t *openai.Tool, i int, strict *int) error {
	f := &t.Function
	param := fmt.Sprintf("tools[%d].function", i)
	if err := turns.CheckFunction(f, i); err != nil {
		return err
	}
	object, also := schema.Object(f.Parameters)
	spec := toolSpec{Name: e.names.Sent(f.Name), Description: f.Description, InputSchema: inputSchema{object}}
	if also != "" {
		spec.Description += "\n\nThe arguments must also match this JSON Schema: " + also
	}
	if f.Strict != nil && *f.Strict {
		closed, ok := schema.Closed(object)
		if ok && also == "" && e.can.GetStructuredOutput() && *strict < messages.MaxStrictTools {
			spec.InputSchema.JSON, spec.Strict = closed, true
			*strict++
		} else {
			e.Drop(param + ".strict")
		}
	}
	e.offer(spec)
	if e.caching(e.family.cachesTools, t.CacheControl) {
		e.out.ToolConfig.Tools = append(e.out.ToolConfig.Tools, tool{CachePoint: newCachePoint(t.CacheControl)})
	}
	return nil
}

// offer adds a tool.
func (e *encoder) offer(spec toolSpec) {
	if e.out.ToolConfig == nil {
		e.out.ToolConfig = &toolConfig{}
	}
	e.out.ToolConfig.Tools = append(e.out.ToolConfig.Tools, tool{ToolSpec: &spec})
}

// noTools deals with a request whose model is to call nothing. A conversation with calls in it needs definitions even
// so.
func (e *encoder) noTools() {
	used := e.names.Used()
	if len(used) == 0 {
		e.out.ToolConfig = nil
		return
	}
	if e.out.ToolConfig == nil {
		for _, n := range used {
			e.offer(toolSpec{Name: n, InputSchema: inputSchema{jsontext.Value(`{"type":"object"}`)}})
		}
	}
	e.instruct(noCalls)
}

// choice translates tool_choice and parallel_tool_calls.
func (e *encoder) choice(c *openai.ToolChoice) error {
	if c.Allowed != nil {
		var err error
		if e.out.ToolConfig.Tools, err = turns.Allow(e.out.ToolConfig.Tools, tool.name, c.Allowed); err != nil {
			return err
		}
	}
	switch c.Mode {
	case "none":
		e.noTools()
		return nil
	case "", "auto":
	case "required", "any":
		e.force = "any"
	case "function":
		e.force, e.forced = "tool", e.names.Sent(c.Name)
		if !e.hasTool(e.forced) {
			return openai.CodeInvalidValue.On("tool_choice", "Tool choice '%s' not found in 'tools' parameter.",
				c.Name)
		}
	default:
		return openai.BadValue("tool_choice", "A 'tool_choice' of '%s' is not supported by the provider '%s'.", c.Mode, name)
	}
	if e.force != "" && e.can != nil && e.can.ForcedTools != nil && !*e.can.ForcedTools {
		e.force = ""
		if err := e.Unsupported("tool_choice"); err != nil {
			return err
		}
	}
	if p := e.chat.ParallelToolCalls; p != nil && !*p {
		if e.family.effort != effortThinking {
			return e.Unsupported("parallel_tool_calls")
		}
		e.serial = true
	}
	return nil
}

func (e *encoder) hasTool(name string) bool {
	return e.out.ToolConfig != nil && slices.ContainsFunc(e.out.ToolConfig.Tools,
		func(t tool) bool { return t.name() == name })
}

// name returns the tool's name; a cache point has none.
func (t tool) name() string {
	if t.ToolSpec == nil {
		return ""
	}
	return t.ToolSpec.Name
}

// choose writes the choice. One call at a time is Claude's own parameter, which takes the place of Converse's choice.
func (e *encoder) choose() {
	if e.serial {
		own := struct {
			Type            string `json:"type"`
			Name            string `json:"name,omitzero"`
			DisableParallel bool   `json:"disable_parallel_tool_use"`
		}{"auto", e.forced, true}
		if e.force != "" {
			own.Type = e.force
		}
		e.addField("parallel_tool_calls", "tool_choice", own)
		return
	}
	switch e.force {
	case "any":
		e.out.ToolConfig.ToolChoice = &toolChoice{Any: &struct{}{}}
	case "tool":
		e.out.ToolConfig.ToolChoice = &toolChoice{Tool: &namedTool{e.forced}}
	}
}
