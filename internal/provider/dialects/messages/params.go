package messages

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider/forms"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// known are the members of a request that some step of the encoder reads.
var known = []string{
	"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p",
	"top_k",
	"stop", "tools", "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort", "thinking", "user",
	"safety_identifier", "service_tier", "cache_control", "n", "logprobs", "top_logprobs", "frequency_penalty",
	"presence_penalty", "logit_bias", "modalities", "audio", "prediction", "web_search_options", "functions",
	"function_call", "verbosity", "metadata", "output_config", "anthropic_beta",
}

// own are members of the vendor's that pass as the client sends them.
var own = []string{"mcp_servers", "context_management", "container", "inference_geo", "speed", "fallbacks"}

// parameters sets what maps one to one, and refuses what the dialect cannot express unless it asks for nothing.
func (e *encoder) parameters() error {
	c := e.chat
	e.out.TopK = c.TopK
	if v := e.body.Get("cache_control"); turns.Asked(v) {
		e.out.CacheControl = v
	}
	for _, s := range c.Stop {
		if strings.TrimSpace(s) != "" {
			e.out.StopSequences = append(e.out.StopSequences, s)
		} else if s != "" {
			e.Drop("stop") // the vendor refuses stop sequences of white space
		}
	}
	e.user()
	e.betas()
	lacking := []string{"n", "logprobs", "frequency_penalty", "presence_penalty", "logit_bias", "modalities", "audio",
		"prediction", "functions", "function_call", "verbosity", "web_search_options"}
	if e.can.GetWebSearch() {
		lacking = lacking[:len(lacking)-1]
	}
	if err := e.Lacking(c, lacking...); err != nil {
		return err
	}
	return e.serviceTier()
}

// user sets the one identifier of the user that there is room for: user, or else safety_identifier, or else user_id of
// metadata, which is where the vendor has it.
func (e *encoder) user() {
	id := cmp.Or(e.chat.User, e.chat.SafetyIdentifier)
	if s := e.chat.SafetyIdentifier; s != "" && s != id {
		e.Drop("safety_identifier")
	}
	for _, m := range schema.Members(e.chat.Metadata) {
		if v := gjson.ParseBytes(m.Value); m.Name == "user_id" && (id == "" || id == v.Str) {
			id = v.Str
			continue
		}
		e.Drop("metadata")
		break
	}
	e.out.UserID = forms.Of("anthropic").User.Fit(id)
}

// serviceTier maps OpenAI's names. The vendor's auto takes what was committed for priority first, and there is no more
// to ask for.
func (e *encoder) serviceTier() error {
	switch e.chat.ServiceTier {
	case "":
	case "auto", "priority":
		e.out.ServiceTier = "auto"
	case "default", "standard_only":
		e.out.ServiceTier = "standard_only"
	default:
		return e.Unsupported("service_tier")
	}
	return nil
}

// others passes the vendor's own members on. The remaining ones do not change the answer's meaning (seed, store) or
// are unknown: they are never refused, but reported to the client.
func (e *encoder) others() {
	gjson.ParseBytes(e.body.Body).ForEach(func(name, v gjson.Result) bool {
		if slices.Contains(own, name.Str) && v.Type != gjson.Null {
			e.out.Own = append(e.out.Own, schema.Member{Name: name.Str, Value: jsontext.Value(v.Raw)})
			return true
		}
		if v.Type == gjson.False || !turns.Asked(jsontext.Value(v.Raw)) || slices.Contains(known, name.Str) ||
			name.Str == e.wish.Read || len(e.Names) >= turns.MaxNoted {
			return true
		}
		param := name.Str
		if turns.Identifier(param) != param {
			param = "other" // the names end up in a header
		}
		e.Drop(param)
		return true
	})
}

// sampling sets temperature, top_p and top_k.
func (e *encoder) sampling() error {
	takes, thinks := e.can.GetSampling(), e.thinks()
	e.out.Temperature, e.out.TopP = Sampling(&e.Omitted, takes, thinks, e.chat.Temperature, e.chat.TopP)
	if (takes == configv1.Sampling_NEITHER || thinks) && e.out.TopK != nil {
		e.Drop("top_k")
		e.out.TopK = nil
	}
	return nil
}

// Sampling returns what a model takes of temperature and top_p. What it refuses is left out, and noted unless it is
// the default anyway: a client that sets a temperature out of habit still gets its answer. Thinking takes no
// temperature but 1, and a top_p from 0.95 on.
func Sampling(o *turns.Omitted, takes configv1.Sampling, thinks bool, temperature, topP *float64) (_, _ *float64) {
	isDefault := func(p *float64) bool { return p == nil || *p == 1 }
	habit := isDefault(temperature)
	if temperature != nil && *temperature > 1 {
		temperature = new(1.0) // OpenAI's range ends at 2
		o.Adjust("temperature")
	}
	switch {
	case takes == configv1.Sampling_NEITHER || thinks:
		if !isDefault(temperature) {
			o.Drop("temperature")
		}
		if !isDefault(topP) {
			o.Drop("top_p")
		}
		return nil, nil
	case takes != configv1.Sampling_ONE || temperature == nil || topP == nil:
		return temperature, topP
	case isDefault(topP):
		return temperature, nil
	case habit:
		return nil, topP
	}
	o.Drop("top_p")
	return temperature, nil
}
