package responses

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/fit"
	"github.com/modelgate/modelgate/internal/provider/forms"
	"github.com/modelgate/modelgate/internal/provider/reasoning"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// maxSchemas bounds what takes the place of references in the schemas of a request, in bytes.
const maxSchemas = 4 << 20

// known are the members of a chat completion that the codec reads. Others have no place here.
var known = []string{"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "tools",
	"tool_choice", "parallel_tool_calls", "reasoning_effort", "verbosity", "response_format", "temperature", "top_p",
	"user", "safety_identifier", "prompt_cache_key", "service_tier", "metadata", "store", "logprobs", "top_logprobs",
	"web_search_options", "n", "stop", "seed", "presence_penalty", "frequency_penalty", "logit_bias"}

// lacking are the parameters of chat completions that the API lacks.
var lacking = []string{"stop", "seed", "presence_penalty", "frequency_penalty", "logit_bias", "functions",
	"function_call", "audio", "prediction"}

// A request is the body of the vendor's request. Members that are empty are left out.
type request struct {
	Model           string            `json:"model"`
	Input           []jsontext.Value  `json:"input"`
	Stream          bool              `json:"stream,omitzero"`
	Store           bool              `json:"store"`
	Include         []string          `json:"include,omitzero"`
	MaxOutputTokens int64             `json:"max_output_tokens,omitzero"`
	Tools           []jsontext.Value  `json:"tools,omitzero"`
	ToolChoice      jsontext.Value    `json:"tool_choice,omitzero"`
	Parallel        *bool             `json:"parallel_tool_calls,omitzero"`
	Reasoning       map[string]string `json:"reasoning,omitzero"`
	Text            *text             `json:"text,omitzero"`
	Temperature     *float64          `json:"temperature,omitzero"`
	TopP            *float64          `json:"top_p,omitzero"`
	TopLogprobs     *int64            `json:"top_logprobs,omitzero"`
	User            string            `json:"user,omitzero"`
	Safety          string            `json:"safety_identifier,omitzero"`
	CacheKey        jsontext.Value    `json:"prompt_cache_key,omitzero"`
	ServiceTier     string            `json:"service_tier,omitzero"`
	Metadata        jsontext.Value    `json:"metadata,omitzero"`
}

type text struct {
	Format    *format `json:"format,omitzero"`
	Verbosity string  `json:"verbosity,omitzero"`
}

type format struct {
	Type        string         `json:"type"`
	Name        string         `json:"name,omitzero"`
	Description string         `json:"description,omitzero"`
	Strict      *bool          `json:"strict,omitzero"`
	Schema      jsontext.Value `json:"schema,omitzero"`
}

// inOrder returns the request with the results of calls in their places.
func inOrder(r *openai.ChatRequest) (*openai.ChatRequest, error) {
	if !r.Marked(openai.MarkCalls) {
		return r, nil
	}
	list := fit.Results(r.Sent().Get("messages"))
	if list == nil {
		return r, nil
	}
	return openai.ParseChatRequest(r.Sent().Edit(openai.Edit{Name: "messages", Value: list}))
}

// An encoder makes the vendor's request.
type encoder struct {
	turns.Omitted
	dialect *Dialect
	request *openai.ChatRequest
	chat    *openai.Chat
	target  provider.Target
	form    forms.Vendor
	names   turns.Names
	out     request
}

func newEncoder(d *Dialect, r *openai.ChatRequest, t provider.Target) *encoder {
	form := forms.Of(d.Vendor)
	return &encoder{Omitted: turns.Omitted{Vendor: d.Vendor, Drops: t.Drops(), Translated: r.Translated, Last: t.Last},
		dialect: d, request: r, target: t, form: form, names: turns.Names{Form: form.Tool}}
}

func (e *encoder) body() ([]byte, error) {
	var err error
	if e.chat, err = e.request.Chat(); err != nil {
		return nil, err
	}
	e.out = request{Model: e.target.Model, Stream: e.request.Stream, Include: []string{"reasoning.encrypted_content"}}
	for _, step := range []func() error{e.input, e.tools, e.choice, e.parameters, e.format} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	e.effort()
	e.Ignored(e.request.Body, known)
	return json.Marshal(&e.out)
}

// parameters translates the parameters. Limits and sampling have the same names.
func (e *encoder) parameters() error {
	c, o := e.chat, &e.out
	for _, name := range lacking {
		if turns.Asked(e.request.Get(name)) && string(e.request.Get(name)) != "0" {
			if err := e.Unsupported(name); err != nil {
				return err
			}
		}
	}
	if c.N != nil && *c.N > 1 {
		if err := e.Unsupported("n"); err != nil {
			return err
		}
	}
	o.MaxOutputTokens, o.Parallel = c.OutputLimit(), c.ParallelToolCalls
	o.Temperature, o.TopP = c.Temperature, c.TopP
	for name, value := range map[string]**float64{"temperature": &o.Temperature, "top_p": &o.TopP} {
		if *value == nil {
			continue
		}
		if !e.refuses(name) {
			continue
		}
		if **value != 1 { // clients of other dialects send them unasked
			e.Drop(name)
		}
		*value = nil
	}
	if c.Logprobs != nil && *c.Logprobs {
		o.Include, o.TopLogprobs = append(o.Include, "message.output_text.logprobs"), c.TopLogprobs
	}
	o.User, o.Safety = e.form.User.Fit(c.User), e.form.User.Fit(c.SafetyIdentifier)
	o.CacheKey, o.ServiceTier, o.Metadata = e.request.Get("prompt_cache_key"), c.ServiceTier, c.Metadata
	if c.Verbosity != "" {
		o.Text = &text{Verbosity: c.Verbosity}
	}
	return nil
}

// refuses reports whether the model refuses a parameter.
func (e *encoder) refuses(name string) bool {
	for _, p := range e.target.Can().GetUnsupportedParameters() {
		if p == name {
			return true
		}
	}
	return false
}

// effort sets how much the model thinks.
func (e *encoder) effort() {
	asked, has := e.chat.ReasoningEffort, e.target.Can().GetEfforts()
	if asked == "" {
		return
	}
	effort := asked
	if len(has) > 0 {
		effort = reasoning.Nearest(asked, has)
	}
	if effort != asked {
		e.Adjust("reasoning_effort")
	}
	if effort != "" {
		e.out.Reasoning = map[string]string{"effort": effort}
	}
}

func (e *encoder) format() error {
	f := e.chat.ResponseFormat
	if f == nil || f.Type == "text" {
		return nil
	}
	out := &format{Type: f.Type}
	if s := f.JSONSchema; s != nil {
		out.Name, out.Description, out.Strict = s.Name, s.Description, s.Strict
		out.Schema, _ = schema.Clean(s.Schema, schema.RulesFor(schema.OpenAI), maxSchemas)
		if s.Strict != nil && *s.Strict && !schema.RulesFor(schema.OpenAI).Strict(out.Schema) {
			loose := false
			out.Strict = &loose
			e.Adjust("response_format")
		}
	}
	if e.out.Text == nil {
		e.out.Text = &text{}
	}
	e.out.Text.Format = out
	return nil
}

// tools translates the tools. Functions are strict here unless the request says otherwise.
func (e *encoder) tools() error {
	list := e.request.Get("tools")
	cleaned, loose := fit.Schemas(list, schema.RulesFor(schema.OpenAI), maxSchemas)
	if cleaned != nil {
		list = cleaned
	}
	for _, i := range loose {
		e.Adjust(fmt.Sprintf("tools[%d].function.strict", i))
	}
	for i, raw := range schema.Elements(list) {
		t := gjson.ParseBytes(raw)
		switch typ := t.Get("type").Str; {
		case typ == "function":
			e.out.Tools = append(e.out.Tools, e.function(t.Get("function")))
		case turns.IsSearch(typ):
			e.out.Tools = append(e.out.Tools, e.search(i, raw))
		default:
			if err := e.OtherTool(typ, i, true); err != nil {
				return err
			}
		}
	}
	if options := e.chat.WebSearchOptions; len(options) > 0 && options.Kind() == '{' {
		ms := []schema.Member{{Name: "type", Value: jsontext.Value(`"web_search"`)}}
		e.out.Tools = append(e.out.Tools, schema.AppendObject(nil, append(ms, searchMembers(options)...)))
	}
	return nil
}

// search translates a tool that searches the web, whose options are OpenAI's or Anthropic's.
func (e *encoder) search(i int, raw jsontext.Value) jsontext.Value {
	options, others := turns.SearchOptions(raw)
	ms := append([]schema.Member{{Name: "type", Value: jsontext.Value(`"web_search"`)}}, searchMembers(options)...)
	for _, m := range others {
		switch {
		case m.Name == "filters", m.Name == "external_web_access":
			ms = append(ms, m)
		case m.Name == "allowed_domains" && m.Value.Kind() == '[':
			filters := schema.AppendObject(nil, []schema.Member{m})
			ms = append(ms, schema.Member{Name: "filters", Value: filters})
		case turns.Asked(m.Value):
			e.Drop(fmt.Sprintf("tools[%d].%s", i, turns.Identifier(m.Name)))
		}
	}
	return schema.AppendObject(nil, ms)
}

// searchMembers returns the options of a web search as the tool has them.
func searchMembers(options jsontext.Value) []schema.Member {
	var out []schema.Member
	for _, m := range schema.Members(options) {
		switch place := gjson.GetBytes(m.Value, "approximate"); {
		case m.Name == "search_context_size":
			out = append(out, m)
		case m.Name == "user_location" && place.IsObject():
			inner := append([]schema.Member{{Name: "type", Value: jsontext.Value(`"approximate"`)}},
				schema.Members(jsontext.Value(place.Raw))...)
			out = append(out, schema.Member{Name: m.Name, Value: schema.AppendObject(nil, inner)})
		}
	}
	return out
}

func (e *encoder) function(f gjson.Result) jsontext.Value {
	out := openai.AppendString([]byte(`{"type":"function","name":`), e.names.Sent(f.Get("name").Str))
	if d := f.Get("description").Str; d != "" {
		out = openai.AppendString(append(out, `,"description":`...), d)
	}
	out = append(append(out, `,"parameters":`...), f.Get("parameters").Raw...)
	if f.Get("strict").Bool() {
		return append(out, `,"strict":true}`...)
	}
	return append(out, `,"strict":false}`...)
}

// choice translates the choice among tools.
func (e *encoder) choice() error {
	c := e.chat.ToolChoice
	if c == nil {
		return nil
	}
	var allowed strings.Builder
	switch {
	case c.Allowed != nil:
		for i, name := range c.Allowed {
			if i > 0 {
				allowed.WriteByte(',')
			}
			allowed.Write(e.named(name))
		}
		e.out.ToolChoice = jsontext.Value(`{"type":"allowed_tools","mode":"` + c.Mode +
			`","tools":[` + allowed.String() + `]}`)
	case c.Mode == "function":
		e.out.ToolChoice = e.named(c.Name)
	case c.Mode == "auto", c.Mode == "none", c.Mode == "required":
		e.out.ToolChoice = openai.AppendString(nil, c.Mode)
	default:
		return e.Unsupported("tool_choice")
	}
	return nil
}

// named returns the choice of a function.
func (e *encoder) named(name string) []byte {
	return append(openai.AppendString([]byte(`{"type":"function","name":`), e.names.Sent(name)), '}')
}
