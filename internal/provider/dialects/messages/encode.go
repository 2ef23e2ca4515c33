// Package messages translates between OpenAI's chat completions and Anthropic's Messages dialect, which several clouds
// serve. A vendor's folder adds the endpoint and the authentication.
//
// The two APIs differ most in the required form of a conversation, which OpenAI's clients do not follow. So the
// conversation is built anew (package turns) and never mapped message by message. Claude's signed thinking must come
// back unchanged, although stock clients do not know it (thought.go).
package messages

import (
	"cmp"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/reasoning"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// An encoder builds one request.
type encoder struct {
	turns.Omitted
	body  *openai.ChatRequest
	chat  *openai.Chat
	can   *configv1.Capabilities
	names turns.Names
	wish  reasoning.Wish // how much the model is to think
	out   Request

	search jsontext.Value // OpenAI's web_search_options, or a tool that stands for them

	// answerTool is the tool that emulates structured output, or empty.
	answerTool string
}

// Encode builds the vendor's request for r, and the Answer that reads what comes back for it. The vendor's name is
// what errors tell the client. An error is an *openai.Error.
func Encode(vendor string, r *openai.ChatRequest, t provider.Target) (*Request, *Answer, error) {
	chat, err := r.ChatFor(openai.Unnamed, "tool_choice:any")
	if err != nil {
		return nil, nil, err
	}
	e := &encoder{Omitted: turns.Omitted{Vendor: vendor, Drops: t.Drops(), Translated: r.Translated, Last: t.Last},
		body: r, chat: chat, can: cmp.Or(t.Can(), &configv1.Capabilities{})}
	e.out.Model, e.out.Stream = t.Model, r.Stream
	// The order matters: tools are synthesised from the turns, a structured answer may add a tool, thinking depends on
	// whether a tool is forced, and sampling on thinking.
	for _, step := range []func() error{e.parameters, e.conversation, e.tools, e.format, thinker{e}.thinking,
		e.sampling} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	e.limitMarks()
	e.others()
	e.out.Dropped, e.out.Adjusted = e.Names, e.Adjusted
	return &e.out, &Answer{names: &e.names, answerTool: e.answerTool}, nil
}

// JSONError is the error for a request that could not be marshalled, which only a defect of this package causes.
func JSONError(err error) *openai.Error {
	return &openai.Error{Status: http.StatusInternalServerError, Type: openai.TypeServer,
		Message: "The request could not be translated: " + err.Error()}
}

// able returns a capability that models have unless the catalog says otherwise.
func able(stated *bool) bool { return stated == nil || *stated }
