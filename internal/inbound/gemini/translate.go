package gemini

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound/compose"
)

// translate makes the chat completions of a request.
func (r *request) translate() error {
	r.body = &body{}
	read := r.sent.Body
	if r.whole != nil {
		read = r.whole
	}
	if err := requestShape.read(read, r.body); err != nil {
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
	b.thinking()
	return r.Parse(r.sent.Carrier, &b.Builder, common)
}

// check refuses what only Google has and an answer depends on, and notes what else only Google has.
func (r *request) check() error {
	if r.CachedContent != "" {
		return onlyGoogles("cachedContent")
	}
	for _, m := range r.GenerationConfig.Modalities {
		if !strings.EqualFold(m, "TEXT") {
			return onlyGoogles("generationConfig.responseModalities")
		}
	}
	delete(r.Others, "model") // of a count's request
	for within, others := range map[string]map[string]jsontext.Value{"": r.Others,
		"generationConfig.": r.GenerationConfig.Others} {
		for name, v := range others {
			if compose.IsAsked(v) {
				r.Dropped = append(r.Dropped, within+name)
			}
		}
	}
	slices.Sort(r.Dropped)
	return nil
}

// onlyGoogles is the error for what only Google's models do.
func onlyGoogles(param string) error {
	return openai.CodeUnsupportedParameter.On(param,
		"%s: The provider of this model does not support it. Remove it or choose one of Google's models.", param)
}

// A builder appends the members of a chat completion.
type builder struct {
	*request
	compose.Builder
	open  []string // ids of the calls of the last turn of the model
	names []string // of those calls
}

// common appends the members that all codecs read alike.
func (b *builder) common() error {
	c := &b.GenerationConfig
	b.Text("model", b.model)
	if b.sent.Stream {
		b.Member("stream", `true,"stream_options":{"include_usage":true}`)
	}
	b.Member("messages", "[")
	if err := b.conversation(); err != nil {
		return err
	}
	b.End("]")
	for _, m := range []struct {
		name  string
		value jsontext.Value
	}{
		{"max_tokens", c.MaxOutputTokens}, {"temperature", c.Temperature}, {"top_p", c.TopP}, {"top_k", c.TopK},
		{"n", c.CandidateCount}, {"stop", c.StopSequences}, {"seed", c.Seed}, {"presence_penalty", c.PresencePenalty},
		{"frequency_penalty", c.FrequencyPenalty}, {"logprobs", c.ResponseLogprobs}, {"top_logprobs", c.Logprobs},
	} {
		if compose.IsAsked(m.value) {
			b.Raw(m.name, m.value)
		}
	}
	b.Text("service_tier", tiers[strings.ToLower(b.ServiceTier)])
	if err := b.tools(); err != nil {
		return err
	}
	return b.format()
}

// tiers are OpenAI's names of Google's service tiers.
var tiers = map[string]string{"standard": "default", "flex": "flex", "priority": "priority"}

// format appends the form of the answer.
func (b *builder) format() error {
	c := &b.GenerationConfig
	schema := c.JSONSchema
	if compose.IsAsked(c.Schema) {
		schema = jsonSchema(c.Schema)
	}
	switch {
	case c.MIMEType == "" && !compose.IsAsked(schema), c.MIMEType == "text/plain":
		return nil
	case c.MIMEType != "" && c.MIMEType != "application/json":
		return openai.CodeUnsupportedValue.On("generationConfig.responseMimeType",
			"generationConfig.responseMimeType: The provider of this model supports 'text/plain' and 'application/json'.")
	case !compose.IsAsked(schema):
		b.Member("response_format", `{"type":"json_object"}`)
		return nil
	}
	b.Member("response_format", `{"type":"json_schema","json_schema":{"name":"answer","schema":`)
	b.End(string(schema) + "}}")
	return nil
}

// thinking appends how much the model is to think, in members that codecs read which translate.
func (b *builder) thinking() {
	t := &b.GenerationConfig.Thinking
	switch {
	case t.Level != "" && !strings.HasSuffix(t.Level, "_UNSPECIFIED"):
		b.Text("reasoning_effort", strings.ToLower(t.Level))
	case t.Budget == nil || *t.Budget < 0: // the model decides
	case *t.Budget == 0:
		b.Member("thinking", `{"type":"disabled"}`)
	default:
		b.Member("thinking", `{"type":"enabled","budget_tokens":`)
		b.End(strconv.FormatInt(*t.Budget, 10) + "}")
	}
}
