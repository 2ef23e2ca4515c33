package messages

import (
	"github.com/go-json-experiment/json/jsontext"
)

// answerToolName is the tool that emulates structured output: what the model calls it with is the answer's content.
const answerToolName = "give_answer"

// format translates response_format.
func (e *encoder) format() error {
	f := e.chat.ResponseFormat
	if f == nil {
		return nil
	}
	switch {
	case f.Type == "json_object":
		e.instruct("Respond only with a valid JSON object.")
	case f.Type == "json_schema" && f.JSONSchema != nil:
		e.structured(f.JSONSchema.Schema, f.JSONSchema.Description)
	}
	return nil
}

// structured asks for an answer that matches a schema: by the vendor's own means where the model has them and the
// schema can be said there, else by a hidden tool, else by telling the model.
func (e *encoder) structured(schema jsontext.Value, description string) {
	if !asked(schema) || schema.Kind() != '{' {
		e.instruct("Respond only with a valid JSON object.")
		return
	}
	if narrow, ok := narrowSchema(schema); ok && e.can.StructuredOutput {
		e.out.OutputConfig = &outputConfig{Format: &outputFormat{Type: "json_schema", Schema: narrow}}
		return
	}
	object, also := objectSchema(schema)
	chosen := e.out.ToolChoice
	switch {
	case e.can.NoForcedTools, also != "", string(find(members(schema), "type")) != `"object"`:
		// Only an object can be the input of a tool, and only a forced tool is sure to be called.
		e.instruct("Respond only with JSON that matches this JSON Schema, and nothing else: " + string(schema))
		return
	case chosen != nil && chosen.Type == "tool":
		return // the client's own choice leaves no room for an answer
	}
	e.answerTool = answerToolName
	for e.hasTool(e.answerTool) {
		e.answerTool += "_"
	}
	text := "Give the final answer by calling this tool, once, and write nothing else."
	if description != "" {
		text += " The answer: " + description
	}
	e.out.Tools = append(e.out.Tools, tool{Name: e.answerTool, Description: text, InputSchema: object})
	if len(e.out.Tools) == 1 || chosen != nil && chosen.Type == "none" {
		e.out.ToolChoice = &toolChoice{Type: "tool", Name: e.answerTool, DisableParallel: true}
		return
	}
	// Among the client's own tools the model chooses: one of them, or the answer.
	e.out.ToolChoice = &toolChoice{Type: "any", DisableParallel: chosen != nil && chosen.DisableParallel}
}

// instruct adds an instruction after the client's own, so that a prefix which the vendor caches stays as it was.
func (e *encoder) instruct(text string) {
	e.out.System = append(e.out.System, block{Type: "text", Text: text})
}
