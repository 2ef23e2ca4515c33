package messages

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// AnswerTool is the tool that emulates structured output: what the model calls it with is the answer's content.
const AnswerTool = "give_answer"

// NewAnswerTool returns its name, which no other tool has, and its description.
func NewAnswerTool(taken func(name string) bool, answer string) (name, how string) {
	for name = AnswerTool; taken(name); {
		name += "_"
	}
	how = "Give the final answer by calling this tool, once, and write nothing else."
	if answer != "" {
		how += " The answer: " + answer
	}
	return name, how
}

// outputConfig is the vendor's parameter for how the answer is to be.
type outputConfig struct {
	effort string
	schema jsontext.Value  // of the answer
	own    []schema.Member // the client's own members, if it sent the vendor's parameter
}

// has reports whether the client set a member itself.
func (o *outputConfig) has(name string) bool { return schema.Find(o.own, name) != nil }

func (o *outputConfig) appendJSON(dst []byte) []byte {
	dst = text(append(dst, '{'), "effort", o.effort)
	if o.schema != nil {
		dst = append(value(append(member(dst, "format"), `{"type":"json_schema"`...), "schema", o.schema), '}')
	}
	for _, m := range o.own {
		dst = value(dst, m.Name, m.Value)
	}
	return append(dst, '}')
}

// format translates response_format.
func (e *encoder) format() error {
	if given := e.body.Get("output_config"); turns.Asked(given) {
		if given.Kind() != '{' {
			return openai.CodeInvalidType.On("output_config",
				"Invalid type for 'output_config': expected an object.")
		}
		e.out.OutputConfig = &outputConfig{own: schema.Members(given)}
	}
	f := e.chat.ResponseFormat
	if f == nil || f.Type == "text" {
		return nil
	}
	if out := e.out.OutputConfig; out != nil && out.has("format") {
		out.own = schema.Without(out.own, "format")
		e.Drop("output_config.format")
	}
	switch {
	case f.Type == "json_object":
		e.instruct("Respond only with a valid JSON object.")
	case f.Type == "json_schema" && f.JSONSchema != nil:
		e.structured(f.JSONSchema.Schema, f.JSONSchema.Description)
	}
	return nil
}

// output returns the output_config of the request, to be added to.
func (e *encoder) output() *outputConfig {
	if e.out.OutputConfig == nil {
		e.out.OutputConfig = &outputConfig{}
	}
	return e.out.OutputConfig
}

// structured asks for an answer that matches a schema: by the vendor's own means where the model has them and the
// schema can be said there, else by a hidden tool, else by telling the model.
func (e *encoder) structured(asked jsontext.Value, description string) {
	if !turns.Asked(asked) || asked.Kind() != '{' {
		e.instruct("Respond only with a valid JSON object.")
		return
	}
	if e.can.GetStructuredOutput() {
		if closed, ok := schema.Closed(asked); ok {
			if ms := schema.Members(closed); description != "" && schema.Find(ms, "description") == nil {
				closed = schema.AppendObject(nil, append(ms,
					schema.Member{Name: "description", Value: openai.AppendString(nil, description)}))
			}
			e.output().schema = closed
			return
		}
	}
	object, also := schema.Object(asked)
	chosen := e.out.ToolChoice
	switch {
	case !able(e.can.ForcedTools), also != "", !schema.IsObject(asked):
		// Only an object can be the input of a tool, and only a forced tool is sure to be called.
		e.instruct("Respond only with JSON that matches this JSON Schema, and nothing else: " + string(asked))
		return
	case chosen != nil && chosen.kind == "tool":
		return // the client's own choice leaves no room for an answer
	}
	var how string
	e.answerTool, how = NewAnswerTool(e.hasTool, description)
	e.out.Tools = append(e.out.Tools, tool{name: e.answerTool, description: how, inputSchema: object})
	if len(e.out.Tools) == 1 || chosen != nil && chosen.kind == "none" {
		e.out.ToolChoice = &toolChoice{kind: "tool", name: e.answerTool, disableParallel: true}
		return
	}
	// Among the client's own tools the model chooses: one of them, or the answer.
	e.out.ToolChoice = &toolChoice{kind: "any", disableParallel: chosen != nil && chosen.disableParallel}
}

// instruct adds an instruction after the client's own, so that a prefix which the vendor caches stays as it was.
func (e *encoder) instruct(how string) {
	e.out.System = append(e.out.System, block{kind: "text", text: how})
}
