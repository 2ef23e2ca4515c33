package responses

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
)

// ignored are items of tools that OpenAI runs, which mean nothing to other vendors.
var ignored = map[string]bool{
	"web_search_call": true, "file_search_call": true, "code_interpreter_call": true, "image_generation_call": true,
	"mcp_list_tools": true, "mcp_call": true, "mcp_approval_request": true, "mcp_approval_response": true,
	"compaction": true,
}

// A turn is what the assistant said and called without anybody between: one message of a chat completion.
type turn struct {
	begun     bool
	reasoning strings.Builder
	said      content
	calls     []item
}

// item appends an item.
func (b *builder) item(at string, i *item) error {
	switch typ := cmp.Or(i.Type, "message"); typ {
	case "message":
		return b.message(at, i)
	case "reasoning":
		b.turn.begun = true
		for _, p := range append(i.Summary, i.Content...) {
			b.turn.reasoning.WriteString(p.Text)
		}
	case "function_call", "custom_tool_call":
		switch {
		case i.CallID == "":
			return missing(at + ".call_id")
		case i.Name == "":
			return missing(at + ".name")
		case typ == "custom_tool_call":
			i.Arguments = string(append(openai.AppendString([]byte(`{"input":`), i.Input), '}'))
		}
		b.turn.begun = true
		b.turn.calls = append(b.turn.calls, *i)
	case "function_call_output", "custom_tool_call_output":
		return b.output(at, i)
	case "item_reference":
		return openai.BadRequest(at, openai.CodeUnsupportedParameter,
			"'%s' refers to a stored item, which is not supported: the operator of this gateway has not turned on that it stores responses. Send the item itself.", at)
	default:
		if !ignored[typ] {
			return openai.BadRequest(at+".type", openai.CodeInvalidValue,
				"Invalid value: '%s'. This type of '%s' is not supported by this model's provider.", typ, at)
		}
		b.drop(at)
	}
	return nil
}

func missing(at string) error {
	return openai.BadRequest(at, openai.CodeMissingRequiredParameter, "Missing required parameter: '%s'.", at)
}

func (b *builder) message(at string, i *item) error {
	switch i.Role {
	case "assistant":
		b.turn.begun = true
		for n, p := range i.Content {
			if p.Type != "output_text" && p.Type != "refusal" && p.Type != "input_text" && p.Type != "text" {
				return unknownPart(fmt.Sprintf("%s.content[%d]", at, n), p.Type)
			}
			b.turn.said = append(b.turn.said, p)
		}
		return nil
	case "user", "system", "developer":
		b.endTurn()
		b.Begin("{")
		b.String("role", i.Role)
		if err := b.content(at+".content", i.Content); err != nil {
			return err
		}
		b.End("}")
		return nil
	case "":
		return missing(at + ".role")
	}
	return openai.BadRequest(at+".role", openai.CodeInvalidValue,
		"Invalid value: '%s'. Supported values are: 'user', 'assistant', 'system', and 'developer'.", i.Role)
}

// endTurn appends the message of a turn of the assistant, if there is one.
func (b *builder) endTurn() {
	t := &b.turn
	if !t.begun {
		return
	}
	b.Begin(`{"role":"assistant"`)
	b.Text("reasoning_content", t.reasoning.String())
	var text, refusal strings.Builder
	for _, p := range t.said {
		text.WriteString(p.Text)
		refusal.WriteString(p.Refusal)
	}
	if text.Len() > 0 || len(t.calls)+refusal.Len() == 0 {
		b.String("content", text.String())
	}
	b.Text("refusal", refusal.String())
	if len(t.calls) > 0 {
		b.Member("tool_calls", "[")
		for i := range t.calls {
			b.Call(t.calls[i].CallID, qualified(t.calls[i].Namespace, t.calls[i].Name), t.calls[i].Arguments)
		}
		b.End("]")
	}
	b.End("}")
	b.turn = turn{}
}

// output appends the result of a call. OpenAI's chat completions take only text as a result: what else there is goes
// into a message of the user.
func (b *builder) output(at string, i *item) error {
	if i.CallID == "" {
		return missing(at + ".call_id")
	}
	b.endTurn()
	var text strings.Builder
	var others content
	for _, p := range i.Output {
		if p.Type == "input_text" || p.Type == "output_text" {
			text.WriteString(p.Text)
		} else {
			others = append(others, p)
		}
	}
	b.Begin(`{"role":"tool"`)
	b.String("tool_call_id", i.CallID)
	b.String("content", text.String())
	b.End("}")
	if len(others) > 0 {
		b.shown = append(b.shown, shown{at + ".output", i.CallID, others})
	}
	return nil
}

// A shown has the parts of a result that are not text.
type shown struct {
	at, callID string
	parts      content
}

// endResults appends a message with what results have besides text, after the last of the results.
func (b *builder) endResults() error {
	for _, s := range b.shown {
		id := b.carrier.Bare(s.callID)
		b.Begin(`{"role":"user"`)
		parts := append(content{{Type: "input_text", Text: "From the result of the tool call " + id + ":"}}, s.parts...)
		if err := b.content(s.at, parts); err != nil {
			return err
		}
		b.End("}")
	}
	b.shown = nil
	return nil
}

// content appends the content of a message.
func (b *builder) content(at string, parts content) error {
	if len(parts) == 1 && parts[0].Type == "input_text" {
		b.String("content", parts[0].Text)
		return nil
	}
	b.Member("content", "[")
	for n := range parts {
		if err := b.part(fmt.Sprintf("%s[%d]", at, n), &parts[n]); err != nil {
			return err
		}
	}
	b.End("]")
	return nil
}

func (b *builder) part(at string, p *part) error {
	switch p.Type {
	case "input_text", "output_text", "text":
		b.Begin(`{"type":"text"`)
		b.String("text", p.Text)
		b.End("}")
	case "input_image":
		if p.ImageURL == "" {
			return byID(at)
		}
		b.Begin(`{"type":"image_url","image_url":{`)
		b.String("url", p.ImageURL)
		b.Text("detail", p.Detail)
		b.End("}}")
	case "input_file":
		data := cmp.Or(p.FileData, p.FileURL)
		if data == "" {
			return byID(at)
		}
		b.Begin(`{"type":"file","file":{`)
		b.Text("filename", p.Filename)
		b.String("file_data", data)
		b.End("}}")
	default:
		return unknownPart(at, p.Type)
	}
	return nil
}

func byID(at string) error {
	return openai.BadRequest(at+".file_id", openai.CodeUnsupportedValue,
		"Files by id are not supported by this model's provider. Send the content of '%s'.", at)
}

func unknownPart(at, typ string) error {
	return openai.BadRequest(at+".type", openai.CodeInvalidValue,
		"Invalid value: '%s'. This type of '%s' is not supported by this model's provider.", typ, at)
}
