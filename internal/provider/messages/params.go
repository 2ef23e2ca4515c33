package messages

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// known are the members of a request that some step of the encoder reads. Any other one is named in Request.Dropped.
var known = []string{
	"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k",
	"stop", "tools", "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort", "thinking", "user",
	"safety_identifier", "service_tier", "cache_control", "n", "logprobs", "top_logprobs", "frequency_penalty",
	"presence_penalty", "logit_bias", "modalities", "audio", "prediction", "web_search_options", "functions",
	"function_call", "verbosity",
}

// maxDropped is how many names of dropped members are collected at least before the rest goes without a word.
const maxDropped = 32

func drops(t provider.Target) bool {
	return t.Config.GetUnsupportedParameters() == configv1.UnsupportedParameters_DROP
}

// parameters sets what maps one to one, and refuses what the dialect cannot express unless it asks for nothing.
func (e *encoder) parameters() error {
	c := e.chat
	e.out.TopK = c.TopK
	if v := e.body.Get("cache_control"); asked(v) {
		e.out.CacheControl = v
	}
	for _, s := range c.Stop {
		if strings.TrimSpace(s) != "" { // the vendor refuses stop sequences of white space
			e.out.StopSequences = append(e.out.StopSequences, s)
		}
	}
	e.user()
	for _, p := range []struct {
		name    string
		refused bool
	}{
		{"n", c.N != nil && *c.N != 1},
		{"logprobs", c.Logprobs != nil && *c.Logprobs},
		{"frequency_penalty", c.FrequencyPenalty != nil && *c.FrequencyPenalty != 0},
		{"presence_penalty", c.PresencePenalty != nil && *c.PresencePenalty != 0},
		{"logit_bias", asked(c.LogitBias)},
		{"modalities", slices.ContainsFunc(c.Modalities, func(s string) bool { return s != "text" })},
		{"audio", asked(c.Audio) && slices.Contains(c.Modalities, "audio")},
		{"prediction", asked(c.Prediction)},
		{"web_search_options", c.WebSearchOptions != nil && c.WebSearchOptions.Kind() != 'n'}, // {} asks for a search
		{"functions", asked(c.Functions)},
		{"function_call", asked(c.FunctionCall) && string(c.FunctionCall) != `"none"` && string(c.FunctionCall) != `"auto"`},
		{"verbosity", c.Verbosity != "" && c.Verbosity != "medium"},
	} {
		if p.refused {
			if err := e.unsupported(p.name); err != nil {
				return err
			}
		}
	}
	return e.serviceTier()
}

func (e *encoder) user() {
	id := e.chat.User
	switch {
	case id == "":
		id = e.chat.SafetyIdentifier
	case e.chat.SafetyIdentifier != "" && e.chat.SafetyIdentifier != id:
		e.dropped("safety_identifier")
	}
	if id != "" {
		e.out.Metadata = &metadata{UserID: id}
	}
}

func (e *encoder) serviceTier() error {
	switch e.chat.ServiceTier {
	case "":
	case "auto":
		e.out.ServiceTier = "auto"
	case "default":
		e.out.ServiceTier = "standard_only"
	default:
		return e.unsupported("service_tier")
	}
	return nil
}

// ignored notes the members that change nothing of the answer's meaning (seed, metadata, store) or that are not
// OpenAI's: they are never refused, but the client is told.
func (e *encoder) ignored() {
	gjson.ParseBytes(e.body.Body).ForEach(func(name, v gjson.Result) bool {
		if v.Type == gjson.False || !asked(jsontext.Value(v.Raw)) || slices.Contains(known, name.Str) {
			return true
		}
		param := name.Str
		if identifier(param) != param {
			param = "other" // the names end up in a header
		}
		e.dropped(param)
		return len(e.out.Dropped) < maxDropped
	})
}

// sampling keeps of temperature, top_p and top_k what the model takes. What it refuses is left out, and noted unless it
// is the default anyway: a client that sets a temperature out of habit still gets its answer.
func (e *encoder) sampling() error {
	temperature, topP := e.chat.Temperature, e.chat.TopP
	if temperature != nil && *temperature > 1 {
		temperature = ptr(1.0) // OpenAI's range ends at 2
	}
	isDefault := func(p *float64) bool { return p == nil || *p == 1 }
	if e.can.Sampling == samplingNone || e.thinks() {
		// Thinking takes no temperature but 1, and a top_p from 0.95 on.
		if !isDefault(temperature) {
			e.dropped("temperature")
		}
		if !isDefault(topP) {
			e.dropped("top_p")
		}
		if e.out.TopK != nil {
			e.dropped("top_k")
		}
		e.out.TopK = nil
		return nil
	}
	if e.can.Sampling == samplingOne && temperature != nil && topP != nil {
		switch {
		case isDefault(topP):
		case isDefault(e.chat.Temperature):
			temperature = nil
		default:
			e.dropped("top_p")
		}
		if temperature != nil {
			topP = nil
		}
	}
	e.out.Temperature, e.out.TopP = temperature, topP
	return nil
}

// asked reports whether a raw member is more than absent, null or empty.
func asked(v jsontext.Value) bool {
	switch v.Kind() {
	case 'n':
		return false
	case '{', '[', '"':
		return len(bytes.Trim(v, "{}[]\" \t\r\n")) > 0
	}
	return len(v) > 0
}

func ptr[T any](v T) *T { return &v }

// badValue is the 400 for a value that this dialect has no place for.
func badValue(param, format string, args ...any) error {
	return openai.BadRequest(param, "unsupported_value", format, args...)
}
