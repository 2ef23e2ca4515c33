// Package overchat serves legacy completions with vendors that only have chat completions: the prompt becomes a user
// message, and the content of the answer becomes the text of the completion.
//
// It is independent of vendors. The codec builds a chat completion request, lets any chat codec translate it, and
// converts the events of the answer, also of a stream.
package overchat

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// defaultMaxTokens is OpenAI's default.
const defaultMaxTokens = 16

// Completion returns a codec for legacy completions that uses a vendor's codec for chat completions.
func Completion(chat provider.ChatCodec, vendor string) provider.CompletionCodec {
	return codec{chat, vendor}
}

type codec struct {
	chat   provider.ChatCodec
	vendor string
}

// Encode implements provider.CompletionCodec.
func (c codec) Encode(r *openai.CompletionRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	edits, dropped, err := c.chatEdits(r, t)
	if err != nil {
		return provider.Request{}, nil, err
	}
	chat, err := openai.ParseChatRequest(r.Edit(edits...))
	if err != nil {
		return provider.Request{}, nil, asCompletion(err)
	}
	req, inner, err := c.chat.Encode(chat, t)
	if err != nil {
		return provider.Request{}, nil, asCompletion(err)
	}
	for _, name := range req.Dropped {
		if name = paramName(name); !slices.Contains(dropped, name) {
			dropped = append(dropped, name)
		}
	}
	req.Dropped = dropped
	for i, name := range req.Adjusted {
		req.Adjusted[i] = paramName(name)
	}
	a := &answer{inner: inner}
	if r.Echo != nil && *r.Echo {
		a.echo = r.Prompts[0]
	}
	return req, a, nil
}

// chatEdits returns the edits that convert the body to a chat completion, and the dropped parameters. Common and
// unknown members stay unchanged.
func (c codec) chatEdits(r *openai.CompletionRequest, t provider.Target) (edits []openai.Edit, dropped []string,
	err error) {
	echo := r.Echo != nil && *r.Echo
	switch {
	case r.Tokens:
		return nil, nil, c.refuse("prompt", "take no tokens. Send the prompt as text.")
	case len(r.Prompts) != 1:
		return nil, nil, c.refuse("prompt", "take one prompt. Send a request for each.")
	case r.MaxTokens != nil && *r.MaxTokens == 0:
		return nil, nil, c.refuse("max_tokens", "generate at least one token. Set 'max_tokens' to 1 or more.")
	case echo && r.Logprobs != nil:
		return nil, nil, c.refuse("logprobs", "have no log probabilities of the prompt. Remove 'echo' or 'logprobs'.")
	}
	message := openai.AppendString([]byte(`[{"role":"user","content":`), r.Prompts[0])
	edits = []openai.Edit{
		{Name: "messages", Value: append(message, `}]`...)},
		{Name: "prompt"}, {Name: "echo"}, {Name: "best_of"}, {Name: "suffix"},
	}
	if r.MaxTokens == nil {
		edits = append(edits, openai.Edit{Name: "max_tokens", Value: strconv.AppendInt(nil, defaultMaxTokens, 10)})
	}
	if r.Logprobs != nil {
		edits = append(edits, openai.Edit{Name: "logprobs", Value: []byte("true")},
			openai.Edit{Name: "top_logprobs", Value: strconv.AppendInt(nil, *r.Logprobs, 10)})
	}
	if r.BestOf != nil && *r.BestOf != wanted(r) {
		dropped = append(dropped, "best_of")
	}
	if r.Suffix != "" {
		dropped = append(dropped, "suffix")
	}
	if len(dropped) > 0 && !t.Drops() {
		return nil, nil, openai.Unsupported(dropped[0], c.vendor)
	}
	return edits, dropped, nil
}

// wanted returns the number of requested choices.
func wanted(r *openai.CompletionRequest) int64 {
	if r.N != nil {
		return *r.N
	}
	return 1
}

func (c codec) refuse(param, why string) *openai.Error {
	return openai.CodeUnsupportedParameter.On(param,
		"The provider '%s' serves completions by way of chat completions, which %s", c.vendor, why)
}

// asCompletion converts an error about the chat completion to one about the client's request.
func asCompletion(err error) error {
	e, ok := errors.AsType[*openai.Error](err)
	if !ok || e.Status != http.StatusBadRequest {
		return err
	}
	renamed := *e
	renamed.Param = paramName(e.Param)
	return &renamed
}

// paramName returns the name of a chat completion's parameter in the client's request.
func paramName(param string) string {
	switch {
	case strings.HasPrefix(param, "messages"):
		return "prompt"
	case param == "top_logprobs":
		return "logprobs"
	case param == "max_completion_tokens":
		return "max_tokens"
	}
	return param
}
