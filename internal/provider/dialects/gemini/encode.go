package gemini

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/forms"
	"github.com/modelgate/modelgate/internal/provider/reasoning"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// A Service is how one that speaks the dialect differs from others.
type Service struct {
	// Vendor is the provider's name, for errors.
	Vendor string
	// Labels says that requests may be labelled, with the client's metadata.
	Labels bool
	// Storage says that files in Cloud Storage (gs://) can be named.
	Storage bool
	// Enterprise says that the web can be searched by the rules of an enterprise.
	Enterprise bool
}

// An encoder builds one request.
type encoder struct {
	turns.Omitted
	service Service
	body    *openai.ChatRequest
	chat    *openai.Chat
	can     *configv1.Capabilities
	names   turns.Names
	wish    reasoning.Wish // how much the model is to think
	out     Request
	config  []schema.Member // generationConfig
	unknown []schema.Member // what the client sent that nobody knows
	own     []schema.Member // what the client sent of the vendor's own
	details []string        // of images
	answer  Answer

	replaced int // bytes that have taken the place of references in schemas
}

// Encode builds the request for r, and the Answer that reads what comes back for it. An error is an *openai.Error.
func Encode(s Service, r *openai.ChatRequest, t provider.Target) (*Request, *Answer, error) {
	chat, err := r.ChatFor(openai.Unnamed, "tools.type")
	if err != nil {
		return nil, nil, err
	}
	e := &encoder{Omitted: turns.Omitted{Vendor: s.Vendor, Drops: t.Drops(), Translated: r.Translated, Last: t.Last},
		service: s, body: r, chat: chat, can: t.Can(), names: turns.Names{Form: forms.Of("gemini").Tool}}
	e.readOthers()
	// The order matters: what is the vendor's own goes before what is translated, and the format depends on the tools.
	for _, step := range []func() error{e.refused, e.sampling, e.output, e.conversation, e.tools, e.format, e.thinking} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	e.addOwn()
	e.ignored()
	if len(e.config) > 0 {
		e.out.GenerationConfig = schema.AppendObject(nil, e.config)
	}
	e.out.Dropped, e.out.Adjusted = e.Names, e.Adjusted
	e.answer.names, e.answer.vendor = &e.names, s.Vendor
	return &e.out, &e.answer, nil
}

// set sets a member of generationConfig.
func (e *encoder) set(name string, value jsontext.Value) {
	e.config = append(e.config, schema.Member{Name: name, Value: value})
}

func (e *encoder) setString(name, value string) { e.set(name, openai.AppendString(nil, value)) }

// known are the members of a request that some step of the encoder reads as OpenAI's.
var known = []string{
	"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p",
	"stop", "seed",
	"tools", "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort", "thinking", "service_tier", "n",
	"logprobs", "top_logprobs", "frequency_penalty", "presence_penalty", "logit_bias", "modalities", "audio",
	"prediction",
	"web_search_options", "functions", "function_call", "verbosity",
}

// ignored notes the members that do not change the answer's meaning (user, metadata, store) or that are neither
// OpenAI's nor the vendor's: they are never refused, but reported to the client.
func (e *encoder) ignored() {
	for _, m := range e.unknown {
		if m.Name != e.wish.Read && (m.Name != "metadata" || !e.label(m.Value)) {
			e.Drop(m.Name)
		}
	}
}

// label makes the client's metadata labels of the request, where all of them can be.
func (e *encoder) label(metadata jsontext.Value) bool {
	if !e.service.Labels || e.out.Labels != nil {
		return false
	}
	members := schema.Members(metadata)
	for _, m := range members {
		if m.Value.Kind() != '"' || !isLabel(m.Name, 1) || !isLabel(string(m.Value[1:len(m.Value)-1]), 0) {
			return false
		}
	}
	e.out.Labels = metadata
	return len(members) <= maxLabels
}

// maxLabels is how many labels a request may have.
const maxLabels = 64

// isLabel reports whether s has at least least, and at most 63, lower-case letters, digits, dashes and underscores.
func isLabel(s string, least int) bool {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	return len(s) >= least && len(s) <= 63 && strings.IndexFunc(s, bad) < 0
}
