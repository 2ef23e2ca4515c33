package mistral

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/reasoning"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// connectors are the vendor's own tools, which its servers run.
var connectors = []string{"web_search", "web_search_premium", "code_interpreter", "image_generation",
	"document_library", "connector"}

// tools writes the tools and which of them the model may or must call.
func (e *encoder) tools() error {
	var allowed map[string]bool
	if c := e.chat.ToolChoice; c != nil && c.Allowed != nil {
		allowed = make(map[string]bool, len(c.Allowed))
		for _, n := range c.Allowed {
			allowed[n] = true
		}
	}
	var raw []jsontext.Value // read where it is needed
	var functions []string
	var tools []byte
	for i := range e.chat.Tools {
		t := &e.chat.Tools[i]
		if t.Type == "function" && allowed != nil && !allowed[t.Function.Name] {
			continue
		}
		if raw == nil && t.Type != "function" {
			raw = schema.Elements(e.body.Get("tools"))
		}
		tool, err := e.tool(t, i, raw)
		if err != nil {
			return err
		}
		if tool == nil {
			continue
		}
		if t.Type == "function" {
			functions = append(functions, e.names.Sent(t.Function.Name))
		} else {
			e.own = []string{}
		}
		tools = append(append(tools, ','), tool...)
	}
	if e.own != nil {
		e.own = append(e.own, functions...)
	}
	if tools != nil {
		tools[0] = '['
		e.out = append(append(e.member("tools"), tools...), ']')
		if p := e.chat.ParallelToolCalls; p != nil {
			e.out = strconv.AppendBool(e.member("parallel_tool_calls"), *p)
		}
	}
	return e.toolChoice(functions, tools != nil)
}

// tool returns the i-th of the tools, which are raw as the client sent them, as the vendor wants it, or nil if it
// is left out.
func (e *encoder) tool(t *openai.Tool, i int, raw []jsontext.Value) ([]byte, error) {
	f := &t.Function
	switch {
	case slices.Contains(connectors, t.Type):
		return raw[i], nil
	case t.Type != "function":
		return nil, e.OtherTool(t.Type, i, e.HasFunctions(e.chat.Tools))
	}
	if err := turns.CheckFunction(f, i); err != nil {
		return nil, err
	}
	out := openai.AppendString([]byte(`{"type":"function","function":{"name":`), e.names.Sent(f.Name))
	if f.Description != "" {
		out = openai.AppendString(append(out, `,"description":`...), f.Description)
	}
	if turns.Asked(f.Parameters) {
		out = append(append(out, `,"parameters":`...), f.Parameters...)
	} else {
		out = append(out, `,"parameters":{"type":"object","properties":{}}`...)
	}
	if f.Strict != nil {
		out = strconv.AppendBool(append(out, `,"strict":`...), *f.Strict)
	}
	return append(out, "}}"...), nil
}

// toolChoice writes the choice among tools, if there are any.
func (e *encoder) toolChoice(functions []string, some bool) error {
	c := e.chat.ToolChoice
	switch {
	case c == nil:
	case !some && len(e.chat.Tools) > 0 && c.Allowed != nil, c.Mode == "function" && some &&
		!slices.Contains(functions, e.names.Sent(c.Name)):
		return openai.CodeInvalidValue.On("tool_choice",
			"Invalid 'tool_choice': none of the tools that it names is in 'tools'.")
	case !some && (c.Mode == "required" || c.Mode == "any" || c.Mode == "function"):
		return openai.CodeInvalidValue.On("tool_choice",
			"Invalid 'tool_choice': it is only allowed when 'tools' are specified.")
	case !some:
	case c.Mode == "required", c.Mode == "any":
		e.out = append(e.member("tool_choice"), `"any"`...)
	case c.Mode == "auto", c.Mode == "none":
		e.out = openai.AppendString(e.member("tool_choice"), c.Mode)
	case c.Mode == "function":
		e.out = openai.AppendString(append(e.member("tool_choice"), `{"type":"function","function":{"name":`...),
			e.names.Sent(c.Name))
		e.out = append(e.out, "}}"...)
	default:
		return openai.BadValue("tool_choice", "A tool choice of type '%s' is not supported by the provider '%s'.", c.Mode,
			name)
	}
	return nil
}

// efforts are the efforts of models without efforts in the catalog. The vendor knows no max.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh"}

// reasoning sets how much the model thinks. Some models take an effort; some always think, and only the vendor's
// instructions for it can be switched off.
func (e *encoder) reasoning() error {
	w, err := reasoning.Of(e.request, e.chat)
	if err != nil {
		return err
	}
	e.Read = w.Read
	w.Report(&e.Omitted, "", false)
	switch can := e.target.Can(); {
	case w.Param == "":
	case can.GetThinking() == configv1.Thinking_ALWAYS:
		if e.body.Has("prompt_mode") {
			return nil
		}
		if e.out = e.member("prompt_mode"); w.Off() {
			e.out = append(e.out, "null"...)
		} else {
			e.out = append(e.out, `"reasoning"`...)
		}
	case can.GetThinking() == configv1.Thinking_NEVER:
		if !w.Off() {
			return e.Unsupported(w.Param)
		}
	default:
		effort := w.Effort
		if effort == "" && w.Budget == 0 {
			effort = "high" // thinking is switched on
		}
		wanted := cmp.Or(effort, w.Level())
		takes := can.GetEfforts()
		if len(takes) == 0 {
			takes = efforts
		}
		level := cmp.Or(reasoning.Nearest(wanted, takes), wanted)
		if level != wanted && w.Effort != "" {
			e.Adjust(w.Param)
		}
		e.out = openai.AppendString(e.member("reasoning_effort"), level)
	}
	return nil
}
