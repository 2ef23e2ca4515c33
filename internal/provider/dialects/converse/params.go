package converse

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// known are the members of a request that some step of the encoder reads. Any other one is named in Request.Dropped.
var known = []string{
	"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p",
	"top_k",
	"stop", "tools", "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort", "user", "metadata",
	"safety_identifier", "service_tier", "cache_control", "n", "logprobs", "top_logprobs", "frequency_penalty",
	"presence_penalty", "logit_bias", "modalities", "audio", "prediction", "web_search_options", "functions",
	"function_call",
	"verbosity", "guardrailConfig", "performanceConfig", "promptVariables", "requestMetadata", "serviceTier",
	"additionalModelRequestFields", "additionalModelResponseFieldPaths", "thinking",
}

// parameters sets what maps one to one, and refuses what the vendor cannot express unless it asks for nothing.
func (e *encoder) parameters() error {
	c := e.chat
	for _, s := range c.Stop {
		if s == "" || e.family.effort == effortThinking && strings.TrimSpace(s) == "" {
			e.Drop("stop") // Claude refuses stop sequences of white space
			continue
		}
		e.inference().StopSequences = append(e.inference().StopSequences, s)
	}
	if limit := c.OutputLimit(); limit > 0 {
		e.inference().MaxTokens = limit
	}
	for _, own := range []struct {
		name string
		to   *jsontext.Value
	}{
		{"guardrailConfig", &e.out.Guardrail}, {"performanceConfig", &e.out.Performance},
		{"promptVariables", &e.out.PromptVariables},
		{"additionalModelResponseFieldPaths", &e.out.ResponseFields},
	} {
		if v := e.body.Get(own.name); turns.Asked(v) {
			*own.to = v
		}
	}
	if err := e.Lacking(c, "n", "logprobs", "frequency_penalty", "presence_penalty", "logit_bias", "modalities", "audio",
		"prediction", "web_search_options", "functions", "function_call", "verbosity"); err != nil {
		return err
	}
	e.metadata()
	return e.serviceTier()
}

// maxMetadata is how many entries the vendor takes.
const maxMetadata = 16

// metadata writes who the request is for and what for, which the vendor keeps in its logs: the vendor's own member as
// it is, or the client's user and metadata as far as the vendor's alphabet goes.
func (e *encoder) metadata() {
	var ms []schema.Member
	if own := e.body.Get("requestMetadata"); turns.Asked(own) {
		e.out.Metadata, ms = own, schema.Members(own)
	}
	given := len(ms)
	add := func(param, name string, value jsontext.Value) {
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil || name == "" || !isMetadata(name) || !isMetadata(string(text)) || len(ms) >= maxMetadata ||
			schema.Find(ms, name) != nil {
			e.Drop(param)
			return
		}
		ms = append(ms, schema.Member{Name: name, Value: value})
	}
	if e.chat.User != "" {
		add("user", "user", openai.AppendString(nil, e.chat.User))
	}
	if id := e.chat.SafetyIdentifier; id != "" {
		add("safety_identifier", "safety_identifier", openai.AppendString(nil, id))
	}
	for _, m := range schema.Members(e.chat.Metadata) {
		add("metadata", m.Name, m.Value)
	}
	if len(ms) > given {
		e.out.Metadata = schema.AppendObject(nil, ms)
	}
}

// isMetadata reports whether the vendor takes s as a name or a value of its metadata.
func isMetadata(s string) bool {
	return len(s) <= 256 && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
			!strings.ContainsRune(" \t\r\n:_@$#=/+,-.", r)
	}) < 0
}

func (e *encoder) serviceTier() error {
	own := e.body.Get("serviceTier")
	switch tier := e.chat.ServiceTier; tier {
	case "", "auto":
	case "default", "flex", "priority", "reserved":
		e.out.ServiceTier = jsontext.Value(`{"type":"` + tier + `"}`)
	default:
		if err := e.Unsupported("service_tier"); err != nil {
			return err
		}
	}
	if turns.Asked(own) {
		e.out.ServiceTier = own
	}
	return nil
}

// claudes are the members that Claude takes, too.
var claudes = append(slices.Clone(known), "output_config", "anthropic_beta")

// known returns the members that are not named in Request.Dropped. The others change nothing of the answer's meaning
// (seed, store), or neither OpenAI nor the vendor knows them: they are never refused, but reported to the client.
func (f *family) known() []string {
	if f.effort == effortThinking {
		return claudes
	}
	return known
}

// sampling sets temperature and top_p.
func (e *encoder) sampling() error {
	temperature, topP := messages.Sampling(&e.Omitted, e.can.GetSampling(), e.thinks(), e.temperature, e.topP)
	if temperature != nil || topP != nil {
		e.inference().Temperature, e.inference().TopP = temperature, topP
	}
	return nil
}

// betas asks for the client's betas of Anthropic's.
func (e *encoder) betas() {
	member := e.body.Get("anthropic_beta")
	if e.family.effort != effortThinking || !turns.Asked(member) {
		return
	}
	names, all := messages.Betas(name, member)
	if len(names) > 0 {
		e.addField("anthropic_beta", "anthropic_beta", names)
	}
	if !all {
		e.Drop("anthropic_beta")
	}
}

// topK writes top_k, which Converse leaves to the models.
func (e *encoder) topK() error {
	if e.chat.TopK == nil {
		return nil
	}
	if len(e.family.topK) == 0 || e.family.effort == effortThinking &&
		(e.thinks() || e.can.GetSampling() == configv1.Sampling_NEITHER) {
		e.Drop("top_k")
		return nil
	}
	value := strconv.AppendInt(nil, *e.chat.TopK, 10)
	for _, name := range slices.Backward(e.family.topK[1:]) {
		value = schema.AppendObject(nil, []schema.Member{{Name: name, Value: value}})
	}
	e.fields = append(e.fields, field{param: "top_k", Member: schema.Member{Name: e.family.topK[0], Value: value}})
	return nil
}

// A field is one of the additional fields, which are the model's own, and the parameter that asked for it.
type field struct {
	schema.Member
	param string
}

// addField adds a field whose value is marshalled.
func (e *encoder) addField(param, name string, value any) {
	v, err := json.Marshal(value, jsontext.PreserveRawStrings(true))
	if err != nil {
		e.Drop(param) // values of this package always marshal
		return
	}
	e.fields = append(e.fields, field{param: param, Member: schema.Member{Name: name, Value: v}})
}

// additional writes the additional fields: the client's own, and of the others those that it does not set itself.
func (e *encoder) additional() {
	own := e.body.Get("additionalModelRequestFields")
	ms := schema.Members(own)
	given := len(ms)
	for _, f := range e.fields {
		if schema.Find(ms[:given], f.Name) != nil {
			e.Drop(f.param)
			continue
		}
		ms = append(ms, f.Member)
	}
	switch {
	case len(ms) > given:
		e.out.AdditionalFields = schema.AppendObject(nil, ms)
	case turns.Asked(own):
		e.out.AdditionalFields = own
	}
}
