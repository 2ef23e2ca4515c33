package responses

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound/kinds"
)

// A turn is one message of a chat completion: the assistant's texts and calls with nothing between.
type turn struct {
	begun     bool
	reasoning strings.Builder
	said      content
	calls     []item
}

// item appends an item.
func (b *builder) item(at string, i *item) error {
	typ := cmp.Or(i.Type, "message")
	kind, known := kinds.Items[typ]
	switch {
	case !known:
		return openai.CodeInvalidValue.On(at+".type",
			"Invalid value: '%s'. This type of '%s' is not supported by this model's provider.", typ, at)
	case typ == "item_reference":
		return openai.CodeUnsupportedParameter.On(at,
			"'%s' refers to a stored item, which is not supported: the operator of this gateway has not turned on that it stores responses. Send the item itself.", at)
	case kind.Decision == kinds.Refused:
		return openai.CodeUnsupportedParameter.On(at,
			"'%s' of the type '%s' is not supported by this model's provider: %s.", at, typ, kind.Note)
	case kind.Decision == kinds.Dropped:
		b.Drop(at)
		return nil
	}
	switch typ {
	case "message":
		return b.message(at, i)
	case "agent_message":
		return b.agentMessage(at, i)
	case "reasoning":
		b.turn.begun = true
		for _, p := range append(i.Summary, i.Content...) {
			b.turn.reasoning.WriteString(p.Text)
		}
		return nil
	case "additional_tools":
		b.addTools(at, i.Tools)
		return nil
	case "function_call", "custom_tool_call":
		return b.call(at, i)
	case "tool_search_output":
		b.addTools(at, i.Tools)
		i.Output = content{{Type: "input_text", Text: foundTools(i.Tools)}}
	}
	if strings.HasSuffix(typ, "_output") {
		return b.output(at, i)
	}
	b.clientCall(at, i)
	return nil
}

// call adds a call of a function or a custom tool to the turn of the assistant.
func (b *builder) call(at string, i *item) error {
	switch {
	case i.CallID == "":
		return missing(at + ".call_id")
	case i.Name == "":
		return missing(at + ".name")
	case i.Type == "custom_tool_call":
		i.Arguments = text(append(openai.AppendString([]byte(`{"input":`), i.Input), '}'))
	}
	b.turn.begun = true
	b.turn.calls = append(b.turn.calls, *i)
	return nil
}

// clientCall adds a call of a tool that the client ran. Of one without an id nothing can be said.
func (b *builder) clientCall(at string, i *item) {
	i.CallID = cmp.Or(i.CallID, i.ID)
	of := clientToolOf(i.Type)
	if i.CallID == "" || of.typ == "tool_search" && i.Execution == "server" {
		b.Drop(at)
		b.left = append(b.left, i.CallID)
		return
	}
	i.Name = of.typ
	switch of.member {
	case "action":
		i.Arguments = text(i.Action)
	case "operation":
		i.Arguments = text(i.Operation)
	}
	b.turn.begun = true
	b.turn.calls = append(b.turn.calls, *i)
}

// addTools takes tools that an item brings.
func (b *builder) addTools(at string, tools []jsontext.Value) {
	for n, t := range tools {
		b.brought = append(b.brought, placed{fmt.Sprintf("%s.tools[%d]", at, n), t})
	}
}

// foundTools says which tools a search has found.
func foundTools(tools []jsontext.Value) string {
	var names []string
	for _, t := range tools {
		eachTool(gjson.Parse("["+string(t)+"]"), func(namespace string, t gjson.Result) {
			names = append(names, qualified(namespace, cmp.Or(t.Get("name").Str, t.Get("type").Str)))
		})
	}
	if len(names) == 0 {
		return "No tool was found."
	}
	return "These tools can be used now: " + strings.Join(names, ", ")
}

// agentMessage appends what another agent of the client said, as a message of the user with its author.
func (b *builder) agentMessage(at string, i *item) error {
	head := "Message from the agent " + i.Author
	if i.Recipient != "" {
		head += " to " + i.Recipient
	}
	parts := content{{Type: "input_text", Text: head + ":"}}
	for n, p := range i.Content {
		if kinds.Parts[p.Type].Decision == kinds.Dropped {
			b.Drop(fmt.Sprintf("%s.content[%d]", at, n))
			continue
		}
		parts = append(parts, p)
	}
	if len(parts) == 2 && isText(&parts[1]) {
		parts = content{{Type: "input_text", Text: head + ":\n" + parts[1].Text}}
	}
	b.endTurn()
	b.Begin(`{"role":"user"`)
	if err := b.content(at+".content", parts); err != nil {
		return err
	}
	b.End("}")
	return nil
}

func isText(p *part) bool {
	return p.Type == "input_text" || p.Type == "output_text" || p.Type == "text"
}

func missing(at string) error {
	return openai.CodeMissingRequiredParameter.On(at, "Missing required parameter: '%s'.", at)
}

func (b *builder) message(at string, i *item) error {
	switch i.Role {
	case "assistant":
		b.turn.begun = true
		for n, p := range i.Content {
			if kinds.Parts[p.Type].Decision == kinds.Dropped {
				b.Drop(fmt.Sprintf("%s.content[%d]", at, n))
				continue
			}
			if p.Type != "refusal" && !isText(&p) {
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
	return openai.CodeInvalidValue.On(at+".role",
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
			b.Call(t.calls[i].CallID, qualified(t.calls[i].Namespace, t.calls[i].Name), string(t.calls[i].Arguments))
		}
		b.End("]")
	}
	b.End("}")
	b.turn = turn{}
}

// output appends the result of a call. OpenAI's chat completions take only text as a result: what else there is goes
// into a message of the user.
func (b *builder) output(at string, i *item) error {
	if i.Type != "function_call_output" && i.Type != "custom_tool_call_output" {
		i.CallID = cmp.Or(i.CallID, i.ID)
		if i.CallID == "" || slices.Contains(b.left, i.CallID) {
			b.Drop(at)
			return nil
		}
	}
	if i.CallID == "" {
		return missing(at + ".call_id")
	}
	b.endTurn()
	var text strings.Builder
	var others content
	for n := range i.Output {
		p := &i.Output[n]
		switch {
		case isText(p):
			text.WriteString(p.Text)
		case p.Type == "" && i.Type == "shell_call_output":
			p.appendShell(&text)
		case kinds.Parts[p.Type].Decision == kinds.Dropped:
			b.Drop(fmt.Sprintf("%s.output[%d]", at, n))
		default:
			others = append(others, *p)
		}
	}
	if text.Len() == 0 && i.Type == "apply_patch_call_output" {
		text.WriteString(i.Status)
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

// appendShell appends what a command in a shell has written, and how it ended.
func (p *part) appendShell(text *strings.Builder) {
	for _, written := range []string{p.Stdout, p.Stderr} {
		text.WriteString(written)
		if written != "" && !strings.HasSuffix(written, "\n") {
			text.WriteByte('\n')
		}
	}
	switch p.Outcome.Type {
	case "exit":
		fmt.Fprintf(text, "(exit code %d)\n", p.Outcome.ExitCode)
	case "timeout":
		text.WriteString("(timeout)\n")
	}
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
	if b.Dst[len(b.Dst)-1] == '[' { // no part is left
		b.Begin(`{"type":"text","text":""}`)
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
	case "input_image", "computer_screenshot":
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
	case "input_audio":
		b.Begin(`{"type":"input_audio"`)
		b.Raw("input_audio", p.InputAudio)
		b.End("}")
	case "refusal":
		b.Begin(`{"type":"text"`)
		b.String("text", p.Refusal)
		b.End("}")
	default:
		if kinds.Parts[p.Type].Decision != kinds.Dropped {
			return unknownPart(at, p.Type)
		}
		b.Drop(at)
	}
	return nil
}

func byID(at string) error {
	return openai.CodeUnsupportedValue.On(at+".file_id",
		"Files by id are not supported by this model's provider. Send the content of '%s'.", at)
}

func unknownPart(at, typ string) error {
	return openai.CodeInvalidValue.On(at+".type",
		"Invalid value: '%s'. This type of '%s' is not supported by this model's provider.", typ, at)
}
