package gemini

import (
	"github.com/go-json-experiment/json/jsontext"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// format translates response_format. Models before the third generation, which think by a budget or not at all, refuse
// a format beside tools: the prompt says it instead.
func (e *encoder) format() (err error) {
	f := e.chat.ResponseFormat
	if f == nil || f.Type != "json_object" && f.Type != "json_schema" {
		return nil
	}
	var text jsontext.Value
	if f.JSONSchema != nil && turns.Asked(f.JSONSchema.Schema) && f.JSONSchema.Schema.Kind() == '{' {
		if text, err = e.cleanSchema(f.JSONSchema.Schema, "response_format.json_schema.schema"); err != nil {
			return err
		}
	}
	old := e.can.GetThinking() == configv1.Thinking_NEVER || e.can.GetThinking() == configv1.Thinking_BUDGET
	if old && len(e.out.Tools) > 0 {
		if text == nil {
			e.instruct("Respond only with a valid JSON object.")
		} else {
			e.instruct("Respond only with JSON that matches this JSON Schema, and nothing else: " + string(f.JSONSchema.Schema))
		}
		return nil
	}
	e.setString("responseMimeType", "application/json")
	if text == nil {
		return nil
	}
	if members := schema.Members(text); f.JSONSchema.Description != "" && schema.Find(members, "description") == nil {
		text = schema.AppendObject(nil, append(members,
			schema.Member{Name: "description", Value: openai.AppendString(nil, f.JSONSchema.Description)}))
	}
	e.set("responseJsonSchema", text)
	return nil
}

// instruct adds an instruction after the client's own.
func (e *encoder) instruct(text string) {
	if e.out.SystemInstruction == nil {
		e.out.SystemInstruction = &content{}
	}
	e.out.SystemInstruction.Parts = append(e.out.SystemInstruction.Parts, part{Text: text})
}
