package converse

import (
	"cmp"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

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
		e.structured(f.JSONSchema)
	}
	return nil
}

// structured asks for an answer that matches a schema: by Converse's own means where the model has them and the schema
// can be said there, else by a hidden tool, else by telling the model.
func (e *encoder) structured(f *openai.JSONSchema) {
	if !turns.Asked(f.Schema) || f.Schema.Kind() != '{' {
		e.instruct("Respond only with a valid JSON object.")
		return
	}
	if closed, ok := schema.Closed(f.Schema); ok && e.can.GetStructuredOutput() {
		e.out.OutputConfig = &outputConfig{TextFormat: textFormat{Type: "json_schema"}}
		e.out.OutputConfig.TextFormat.Structure.JSONSchema = jsonSchema{Schema: string(closed),
			Name: turns.Identifier(cmp.Or(f.Name, "response")), Description: f.Description}
		return
	}
	object, also := schema.Object(f.Schema)
	switch {
	case !e.can.GetForcedTools(), e.wantsReasoning(), also != "", !schema.IsObject(f.Schema):
		// Only an object can be the input of a tool, only a forced tool is sure to be called, and a model that thinks
		// cannot be forced.
		e.instruct("Respond only with JSON that matches this JSON Schema, and nothing else: " + string(f.Schema))
		return
	case e.force == "tool":
		return // the client's own choice leaves no room for an answer
	}
	e.hiddenTool(object, f.Description)
}

// hiddenTool makes the model call a tool whose input is the answer. Among the client's own tools the model chooses:
// one of them, or the answer.
func (e *encoder) hiddenTool(object jsontext.Value, description string) {
	own := e.out.ToolConfig != nil && (e.chat.ToolChoice == nil || e.chat.ToolChoice.Mode != "none") &&
		len(e.chat.Tools) > 0
	var text string
	e.answerTool, text = messages.NewAnswerTool(e.hasTool, description)
	e.offer(toolSpec{Name: e.answerTool, Description: text, InputSchema: inputSchema{object}})
	if own {
		e.force = "any"
		return
	}
	e.force, e.forced = "tool", e.answerTool
	if n := len(e.out.System); n > 0 && e.out.System[n-1].Text == noCalls {
		e.out.System = e.out.System[:n-1]
	}
}
