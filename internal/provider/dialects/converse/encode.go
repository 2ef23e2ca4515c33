package converse

import (
	"crypto/sha256"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/provider/reasoning"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// A Codec translates chat completions.
type Codec struct{}

// An encoder builds one request.
type encoder struct {
	turns.Omitted
	body   *openai.ChatRequest
	chat   *openai.Chat
	can    *configv1.Capabilities
	family *family
	names  turns.Names
	wish   reasoning.Wish // how much the model is to think
	out    request

	temperature, topP *float64 // as far as they are not taken out yet

	fields      []field // of the model's own, beside Converse's
	cachePoints int
	documents   map[string]int // how often a document's name was asked for
	force       string         // "any" or "tool" where a call is forced
	forced      string         // the tool that is
	serial      bool           // one call at a time
	answerTool  string         // the tool that emulates structured output, or empty
}

// Encode builds a request of Converse or ConverseStream.
func (Codec) Encode(r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	chat, err := r.ChatFor(openai.Unnamed, "tool_choice:any")
	if err != nil {
		return provider.Request{}, nil, err
	}
	e := &encoder{body: r, chat: chat, can: t.Can(), family: familyOf(t.Model, t.Can()),
		Omitted:     turns.Omitted{Vendor: name, Drops: t.Drops(), Translated: r.Translated, Last: t.Last},
		temperature: chat.Temperature, topP: chat.TopP}
	// The order matters: tools are synthesised from the turns, a structured answer may add a tool, thinking depends on
	// whether a tool is forced, and sampling on thinking.
	for _, step := range []func() error{thinker{e}.readWish, e.parameters, e.conversation, e.tools, e.format,
		thinker{e}.thinking, e.sampling, e.topK} {
		if err := step(); err != nil {
			return provider.Request{}, nil, err
		}
	}
	if t.Unsent {
		return provider.Request{}, nil, nil
	}
	e.choose()
	e.betas()
	e.additional()
	e.Ignored(r.Body, e.family.known())
	body, err := e.out.json()
	if err != nil {
		return provider.Request{}, nil, messages.JSONError(err)
	}
	out := provider.Request{Path: OperationPath(t.Model, "converse"), Header: Headers("application/json"), Body: body,
		Dropped: e.Names, Adjusted: e.Adjusted}
	if r.Stream {
		out.Path, out.Header = OperationPath(t.Model, "converse-stream"), Headers(EventStream)
	}
	return out, &answer{request: sha256.Sum256(r.Body), names: &e.names, answerTool: e.answerTool}, nil
}

// inference returns what Converse itself says of sampling.
func (e *encoder) inference() *inferenceConfig {
	if e.out.InferenceConfig == nil {
		e.out.InferenceConfig = &inferenceConfig{}
	}
	return e.out.InferenceConfig
}

// instruct adds an instruction after the client's own, so that a prefix which the vendor caches stays as it was.
func (e *encoder) instruct(text string) {
	e.out.System = append(e.out.System, block{Text: text})
}
