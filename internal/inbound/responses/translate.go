package responses

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound/compose"
)

// translate makes the chat completion of a request.
func (r *request) translate() error {
	b := &builder{Translation: &r.Translation, Builder: compose.Builder{Dst: append(make([]byte, 0, 4096), '{')},
		carrier: r.carrier, sent: &body{}}
	err := json.Unmarshal(r.body, b.sent)
	if err != nil {
		return notRead(err)
	}
	if err = b.check(); err != nil {
		return err
	}
	r.Own, err = b.chat()
	r.Plain = r.Own
	return err
}

// A builder makes a chat completion.
type builder struct {
	compose.Builder
	*compose.Translation
	carrier openai.Carrier
	sent    *body
	turn    turn     // of the assistant, until somebody else speaks
	shown   []shown  // of the results of calls, until somebody speaks
	brought []placed // tools of items
	left    []string // ids of calls that were left out
}

// A placed is a tool at a place in the request.
type placed struct {
	at   string
	tool jsontext.Value
}

// check refuses what needs stored responses, and notes what has no effect.
func (b *builder) check() error {
	for _, p := range []struct {
		name  string
		asked bool
	}{
		{"store", b.sent.Store}, {"background", b.sent.Background},
		{"previous_response_id", b.sent.PreviousResponseID != ""},
		{"conversation", compose.IsAsked(b.sent.Conversation)},
	} {
		if p.asked {
			return openai.CodeUnsupportedParameter.On(p.name,
				"'%s' is not supported: the operator of this gateway has not turned on that it stores responses, and this model's provider stores none. Send the whole conversation as 'input'.", p.name)
		}
	}
	if compose.IsAsked(b.sent.Prompt) {
		return openai.CodeUnsupportedParameter.On("prompt",
			"'prompt' names a prompt that OpenAI stores, which is not supported for this model. Send its text.")
	}
	if len(b.sent.Input) == 0 {
		return openai.CodeMissingRequiredParameter.On("input", "Missing required parameter: 'input'.")
	}
	if b.sent.Truncation != "" && b.sent.Truncation != "disabled" {
		b.Drop("truncation")
	}
	for name, v := range b.sent.Others {
		if compose.IsAsked(v) {
			b.Drop(name)
		}
	}
	slices.Sort(b.Dropped)
	return nil
}

func (b *builder) chat() (*openai.ChatRequest, error) {
	b.Text("model", b.sent.Model)
	if b.sent.Stream {
		b.Member("stream", `true,"stream_options":{"include_usage":true}`)
	}
	b.Member("messages", "[")
	if b.sent.Instructions != "" {
		b.Begin(`{"role":"system"`)
		b.String("content", b.sent.Instructions)
		b.End("}")
	}
	for i := range b.sent.Input {
		if !strings.HasSuffix(b.sent.Input[i].Type, "_output") {
			if err := b.endResults(); err != nil {
				return nil, err
			}
		}
		if err := b.item(fmt.Sprintf("input[%d]", i), &b.sent.Input[i]); err != nil {
			return nil, err
		}
	}
	b.endTurn()
	if err := b.endResults(); err != nil {
		return nil, err
	}
	b.End("]")
	if b.sent.MaxOutputTokens != nil {
		b.Int("max_completion_tokens", *b.sent.MaxOutputTokens)
	}
	if err := b.tools(); err != nil {
		return nil, err
	}
	b.format()
	b.Text("verbosity", b.sent.Text.Verbosity)
	b.Text("reasoning_effort", b.sent.Reasoning.Effort)
	if slices.Contains(b.sent.Include, "message.output_text.logprobs") {
		b.Raw("logprobs", jsontext.Value("true"))
		b.Raw("top_logprobs", b.sent.TopLogprobs)
	}
	for _, m := range []struct {
		name  string
		value jsontext.Value
	}{
		{"temperature", b.sent.Temperature}, {"top_p", b.sent.TopP}, {"parallel_tool_calls", b.sent.ParallelToolCalls},
		{"user", b.sent.User}, {"safety_identifier", b.sent.SafetyIdentifier},
		{"prompt_cache_key", b.sent.PromptCacheKey}, {"service_tier", b.sent.ServiceTier},
	} {
		b.Raw(m.name, m.value)
	}
	b.End("}")
	return compose.Chat(b.carrier, b.Dst)
}

func (b *builder) format() {
	f := &b.sent.Text.Format
	switch f.Type {
	case "", "text":
		return
	case "json_schema":
		b.Member("response_format", `{"type":"json_schema","json_schema":{`)
		b.Text("name", f.Name)
		b.Text("description", f.Description)
		b.Raw("schema", f.Schema)
		b.Raw("strict", f.Strict)
		b.End("}}")
	default: // the chat completion's own check knows more
		b.Member("response_format", "{")
		b.String("type", f.Type)
		b.End("}")
	}
}

// tools appends the tools, also those of items. A custom tool and a tool that the client runs become functions, and a
// namespace becomes its tools. Tools that OpenAI runs pass as they are: codecs know them, or refuse them by name.
func (b *builder) tools() error {
	all := make([]placed, 0, len(b.sent.Tools)+len(b.brought))
	for i, raw := range b.sent.Tools {
		all = append(all, placed{fmt.Sprintf("tools[%d]", i), raw})
	}
	all = append(all, b.brought...)
	begun, known := false, map[string]bool{}
	for _, p := range all {
		list := gjson.Parse("[" + string(p.tool) + "]")
		switch t := list.Get("0"); {
		case t.Get("type").Str == "":
			return openai.CodeMissingRequiredParameter.On(p.at+".type",
				"Missing required parameter: '%s.type'.", p.at)
		case t.Get("type").Str == "tool_search" && clientRun(t) == nil:
			b.Drop(p.at) // all tools are sent
			continue
		}
		eachTool(list, func(namespace string, t gjson.Result) {
			name := qualified(namespace, t.Get("name").Str)
			if name != "" && known[name] {
				return
			}
			known[name] = true
			if !begun {
				begun = true
				b.Member("tools", "[")
			}
			b.tool(namespace, t)
		})
	}
	if begun {
		b.End("]")
	}
	return b.choice()
}

// tool appends a tool.
func (b *builder) tool(namespace string, t gjson.Result) {
	client := clientRun(t)
	switch {
	case t.Get("type").Str == "custom":
		b.Begin(`{"type":"function","function":{`)
		b.String("name", qualified(namespace, t.Get("name").Str))
		b.Text("description", customDescription(t))
		b.Member("parameters", customParameters)
		b.End("}}")
	case client != nil:
		b.Begin(`{"type":"function","function":{`)
		b.String("name", client.typ)
		b.String("description", cmp.Or(t.Get("description").Str, client.description))
		b.Raw("parameters", jsontext.Value(cmp.Or(t.Get("parameters").Raw, client.parameters)))
		b.End("}}")
	case t.Get("type").Str == "function" || namespace != "":
		b.function(namespace, t)
	default:
		b.Begin(t.Raw)
	}
}

func (b *builder) choice() error {
	choice := gjson.ParseBytes(b.sent.ToolChoice)
	switch typ := choice.Get("type").Str; {
	case choice.Type == gjson.String:
		b.String("tool_choice", choice.Str)
	case !choice.IsObject():
	case typ == "allowed_tools":
		b.allowed(choice)
	case chosen(choice) != "":
		b.Member("tool_choice", `{"type":"function","function":{`)
		b.String("name", chosen(choice))
		b.End("}}")
	default:
		return openai.BadValue("tool_choice", "The tool '%s' cannot be chosen at this model's provider.", typ)
	}
	return nil
}

// chosen returns the name of the function that stands for a tool of a choice, or "".
func chosen(t gjson.Result) string {
	switch typ := t.Get("type").Str; typ {
	case "function", "custom":
		return qualified(t.Get("namespace").Str, t.Get("name").Str)
	default:
		if c := clientRun(t); c != nil || typ == "tool_search" {
			return typ
		}
	}
	return ""
}

func (b *builder) function(namespace string, t gjson.Result) {
	b.Begin(`{"type":"function","function":{`)
	b.String("name", qualified(namespace, t.Get("name").Str))
	for _, name := range []string{"description", "parameters", "strict"} {
		b.Raw(name, jsontext.Value(t.Get(name).Raw))
	}
	b.End("}}")
}

// customParameters are the parameters of the function that stands for a custom tool.
const customParameters = `{"type":"object","properties":{"input":{"type":"string"}},` +
	`"required":["input"],"additionalProperties":false}`

// customDescription describes a custom tool, with the grammar of its input.
func customDescription(t gjson.Result) string {
	text := t.Get("description").Str
	if grammar := t.Get("format.definition").Str; grammar != "" {
		syntax := t.Get("format.syntax").Str
		text = strings.TrimSpace(text + "\n\nThe input must match this " + syntax + " grammar:\n" + grammar)
	}
	return text
}

func (b *builder) allowed(choice gjson.Result) {
	b.Member("tool_choice", `{"type":"allowed_tools","allowed_tools":{`)
	b.Text("mode", choice.Get("mode").Str)
	b.Member("tools", "[")
	for _, t := range choice.Get("tools").Array() {
		b.Begin(`{"type":"function","function":{`)
		b.String("name", cmp.Or(chosen(t), t.Get("name").Str))
		b.End("}}")
	}
	b.End("]}}")
}
