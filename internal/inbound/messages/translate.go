package messages

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound/compose"
)

// translate makes the chat completions of a request.
func (r *request) translate() error {
	r.body = &body{}
	if err := json.Unmarshal(r.sent.Body, r.body); err != nil {
		return notRead(err)
	}
	if err := r.check(); err != nil {
		return err
	}
	b := &builder{request: r, Builder: compose.Builder{Dst: append(make([]byte, 0, 4096), '{')}}
	if err := b.common(); err != nil {
		return err
	}
	common := len(b.Dst)
	b.Raw("thinking", r.Thinking)
	if r.OutputConfig.Effort != "" {
		b.Member("output_config", "{")
		b.String("effort", r.OutputConfig.Effort)
		b.End("}")
	}
	b.cache(r.CacheControl)
	return r.Parse(r.sent.Carrier, &b.Builder, common)
}

// check refuses what only Anthropic has and an answer depends on, and notes what else only Anthropic has.
func (r *request) check() error {
	for name, v := range map[string]jsontext.Value{"mcp_servers": r.MCPServers, "container": r.Container} {
		if compose.IsAsked(v) {
			return openai.CodeUnsupportedParameter.On(name,
				"%s: The provider of this model does not support it. Remove it or choose another model.", name)
		}
	}
	for name, v := range r.Others {
		if compose.IsAsked(v) {
			r.Dropped = append(r.Dropped, name)
		}
	}
	slices.Sort(r.Dropped)
	return nil
}

// A builder appends the members of a chat completion.
type builder struct {
	*request
	compose.Builder
}

// common appends the members that all codecs read alike.
func (b *builder) common() error {
	b.Text("model", b.Model)
	if b.MaxTokens != nil { // a count has none
		b.Int("max_tokens", *b.MaxTokens)
	}
	if b.Stream {
		b.Member("stream", `true,"stream_options":{"include_usage":true}`)
	}
	b.Member("messages", "[")
	if err := b.system(); err != nil {
		return err
	}
	for i := b.compacted(); i < len(b.Messages); i++ {
		if err := b.turn(i, &b.Messages[i]); err != nil {
			return err
		}
	}
	b.End("]")
	if len(b.StopSequences) > 0 {
		stop, err := json.Marshal(b.StopSequences)
		if err != nil {
			return err
		}
		b.Raw("stop", stop)
	}
	b.Raw("temperature", b.Temperature)
	b.Raw("top_p", b.TopP)
	b.Raw("top_k", b.TopK)
	b.Text("user", b.Metadata.UserID)
	if err := b.serviceTier(); err != nil {
		return err
	}
	if err := b.tools(); err != nil {
		return err
	}
	return b.format()
}

// serviceTier maps the names of the tiers. OpenAI's auto likewise takes what was committed first.
func (b *builder) serviceTier() error {
	switch b.ServiceTier {
	case "", "auto":
		b.Text("service_tier", b.ServiceTier)
	case "standard_only":
		b.Text("service_tier", "default")
	default:
		return openai.CodeInvalidValue.On("service_tier",
			"service_tier: Input should be 'auto' or 'standard_only'.")
	}
	return nil
}

func (b *builder) format() error {
	f := b.OutputConfig.Format
	if f == nil {
		f = b.OutputFormat
	}
	switch {
	case f == nil:
		return nil
	case f.Type != "json_schema" || f.Schema.Kind() != '{':
		return openai.CodeInvalidValue.On("output_config.format",
			"output_config.format: Expected an object with the type 'json_schema' and a 'schema'.")
	}
	b.Member("response_format", `{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`)
	b.End(string(f.Schema) + "}}")
	return nil
}
