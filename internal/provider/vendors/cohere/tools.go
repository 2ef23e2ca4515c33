package cohere

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/reasoning"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// tools translates the tools and which of them the model may or must call.
func (e *encoder) tools() error {
	strict := string(e.body.Get("strict_tools")) == "true"
	e.out.Tools = make([]tool, 0, len(e.chat.Tools))
	for i := range e.chat.Tools {
		t := &e.chat.Tools[i]
		if t.Type != "function" {
			if err := e.OtherTool(t.Type, i, e.HasFunctions(e.chat.Tools)); err != nil {
				return err
			}
			continue
		}
		f := &t.Function
		if err := turns.CheckFunction(f, i); err != nil {
			return err
		}
		out := tool{Type: "function", Function: function{Name: e.names.Sent(f.Name), Description: f.Description,
			Parameters: f.Parameters}}
		if !turns.Asked(f.Parameters) {
			out.Function.Parameters = jsontext.Value(`{"type":"object","properties":{}}`)
		}
		strict = strict || f.Strict != nil && *f.Strict
		e.out.Tools = append(e.out.Tools, out)
	}
	if err := e.toolChoice(); err != nil {
		return err
	}
	if e.out.StrictTools = strict && !slices.ContainsFunc(e.out.Tools, requiresNothing); strict && !e.out.StrictTools {
		e.Drop("strict_tools")
	}
	return nil
}

// requiresNothing reports whether a tool has no parameter that is required. The vendor refuses such where tools are
// strict (https://docs.cohere.com/docs/tool-use-parameter-types), which is a setting of all tools together.
func requiresNothing(t tool) bool {
	return !gjson.GetBytes(t.Function.Parameters, "required.0").Exists()
}

// toolChoice says what the client's tool_choice says. The vendor cannot name a tool: the model is left no other one.
func (e *encoder) toolChoice() error {
	c := e.chat.ToolChoice
	if c == nil {
		return nil
	}
	allowed := c.Allowed
	switch {
	case len(e.chat.Tools) == 0 && (c.Mode == "required" || c.Mode == "function"):
		return openai.CodeInvalidValue.On("tool_choice",
			"Invalid 'tool_choice': it is only allowed when 'tools' are specified.")
	case len(e.out.Tools) == 0 || c.Mode == "auto" && allowed == nil:
		return nil
	case c.Mode == "none":
		e.out.ToolChoice = "NONE"
	case c.Mode == "required":
		e.out.ToolChoice = "REQUIRED"
	case c.Mode == "function":
		e.out.ToolChoice, allowed = "REQUIRED", []string{c.Name}
	case c.Mode != "auto":
		return openai.BadValue("tool_choice", "A tool choice of type '%s' is not supported by the provider '%s'.", c.Mode,
			name)
	}
	if can := e.target.Can(); e.out.ToolChoice != "" && can != nil && can.ForcedTools != nil && !can.GetForcedTools() {
		if e.out.ToolChoice = ""; c.Mode == "none" {
			e.out.Tools = nil
			return nil
		}
		return e.Unsupported("tool_choice")
	}
	if allowed == nil {
		return nil
	}
	sent := make(map[string]bool, len(allowed))
	for _, n := range allowed {
		sent[e.names.Sent(n)] = true
	}
	e.out.Tools = slices.DeleteFunc(e.out.Tools, func(t tool) bool { return !sent[t.Function.Name] })
	if len(e.out.Tools) == 0 {
		return openai.CodeInvalidValue.On("tool_choice",
			"Invalid 'tool_choice': none of the tools that it names is in 'tools'.")
	}
	return nil
}

// format translates response_format, which the vendor does not take together with tools or documents. Then an
// instruction tells the model.
func (e *encoder) format() error {
	f := e.chat.ResponseFormat
	if f == nil || f.Type == "text" {
		return nil
	}
	hasSchema := f.JSONSchema != nil && turns.Asked(f.JSONSchema.Schema)
	switch {
	case len(e.out.Tools) == 0 && len(e.out.Documents) == 0:
		e.out.ResponseFormat = &responseFormat{Type: "json_object"}
		if hasSchema {
			e.out.ResponseFormat.JSONSchema = f.JSONSchema.Schema
		}
	case hasSchema:
		e.instruct("Respond only with JSON that matches this JSON Schema, and nothing else: " + string(f.JSONSchema.Schema))
	default:
		e.instruct("Respond only with a valid JSON object.")
	}
	return nil
}

// instruct adds an instruction after the client's own.
func (e *encoder) instruct(text string) {
	if e.out.Messages[0].Role != "system" {
		e.out.Messages = slices.Insert(e.out.Messages, 0, message{Role: "system"})
	}
	first := &e.out.Messages[0]
	first.Content = append(first.Content, part{Type: "text", Text: text})
}

// thinking says how much the model is to think. Without a number of tokens it thinks as much as it likes.
func (e *encoder) thinking() error {
	w, err := reasoning.Of(e.request, e.chat)
	if err != nil {
		return err
	}
	e.Read = w.Read
	w.Report(&e.Omitted, "", false)
	never := e.target.Can().GetThinking() == configv1.Thinking_NEVER
	switch {
	case w.Param == "", w.Off() && never:
		return nil
	case never:
		return e.Unsupported(w.Param)
	case w.Off():
		e.out.Thinking = &thinking{Type: "disabled"}
		return nil
	}
	e.out.Thinking = &thinking{Type: "enabled", TokenBudget: w.Budget}
	// thinking must leave room for an answer
	if budget := e.target.Can().GetBudgets()[w.Effort]; e.out.MaxTokens == 0 || budget < e.out.MaxTokens {
		e.out.Thinking.TokenBudget = max(w.Budget, budget)
	}
	return nil
}
