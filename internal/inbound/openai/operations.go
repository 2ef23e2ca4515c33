package openai

import (
	"mime"
	"net/http"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/compose"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/overchat"
)

// Dialect is the part of OpenAI's API that takes a model.
var Dialect = &inbound.Dialect{
	Name:         "openai",
	OpenAIErrors: true,
	Operations:   operations(),
	AppendError:  func(dst []byte, e *openai.Error) []byte { return e.AppendJSON(dst) },
	// The blank line ends an incomplete event. OpenAI's SDKs raise an error for this event in every operation.
	AppendErrorEvent: func(dst []byte, e *openai.Error) []byte {
		return append(e.AppendJSON(append(dst, "\n\nevent: error\ndata: "...)), "\n\n"...)
	},
}

func operations() []*inbound.Operation {
	all := []*inbound.Operation{
		{Name: "chat/completions", Required: "'model' and 'messages'",
			Subject: "messages", Parse: parseChat, Streams: true, TextAnswer: true,
			Stream: chatStream, Document: NewChatDocument},
		{Name: "completions", Required: "'model' and 'prompt'",
			Subject: "prompt", Parse: parseCompletion, Streams: true, TextAnswer: true,
			Stream: completionStream, Document: NewCompletionDocument},
		{Name: "embeddings", Required: "'model' and 'input'",
			Subject: "input", Parse: parseEmbedding, Document: NewChatDocument},
	}
	for _, name := range []string{
		"images/generations", "images/edits", "images/variations", "audio/speech", "audio/transcriptions",
		"audio/translations",
	} {
		all = append(all, &inbound.Operation{Name: name, Required: "'model'", AcceptsForms: true,
			Parse: parseNative("/" + name), ImageAnswer: strings.HasPrefix(name, "images/")})
	}
	all = append(all, &inbound.Operation{Name: "moderations", Required: "'model' and 'input'",
		Subject: "input", Parse: parseModeration,
		Document: NewChatDocument})
	for _, o := range all {
		o.Path = "/v1/" + o.Name
	}
	return all
}

func chatStream(asked chat.Asked) chat.Writer { return NewChatStream(asked) }

func completionStream(asked chat.Asked) chat.Writer { return NewCompletionStream(asked) }

// NotServed is the error for an operation that the provider of a model does not have.
func NotServed(t provider.Target, what string) error {
	return openai.CodeUnsupportedEndpoint.On("model",
		"The provider '%s' does not serve %s. Choose another model.", t.Config.GetName(), what)
}

type chatRequest struct{ *openai.ChatRequest }

func parseChat(h inbound.Head, body []byte) (inbound.Request, error) {
	r, err := h.Carrier.ParseChatRequest(body)
	if err != nil {
		return inbound.Request{}, err
	}
	return inbound.Request{Model: r.Model, Stream: r.Stream, IncludeUsage: r.IncludeUsage,
		Sent: &r.Sent().Members, Encoder: chatRequest{r}}, nil
}

func (r chatRequest) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if v.Chat == nil {
		return provider.Request{}, nil, NotServed(t, "chat completions")
	}
	return v.Chat.Encode(compose.For(r.ChatRequest, v.Name, t), t)
}

type completion struct{ *openai.CompletionRequest }

func parseCompletion(_ inbound.Head, body []byte) (inbound.Request, error) {
	r, err := openai.ParseCompletionRequest(body)
	if err != nil {
		return inbound.Request{}, err
	}
	return inbound.Request{Model: r.Model, Stream: r.Stream, IncludeUsage: r.IncludeUsage,
		Sent: &r.Members, Encoder: completion{r}}, nil
}

func (r completion) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	codec := v.Completion
	if codec == nil && v.Chat != nil {
		codec = overchat.Completion(v.Chat, v.Name)
	}
	if codec == nil {
		return provider.Request{}, nil, NotServed(t, "completions")
	}
	return codec.Encode(r.CompletionRequest, t)
}

type embedding struct{ *openai.EmbeddingRequest }

func parseEmbedding(_ inbound.Head, body []byte) (inbound.Request, error) {
	r, err := openai.ParseEmbeddingRequest(body)
	if err != nil {
		return inbound.Request{}, err
	}
	return inbound.Request{Model: r.Model, Sent: &r.Members, Encoder: embedding{r}}, nil
}

func (r embedding) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if v.Embedding == nil {
		return provider.Request{}, nil, NotServed(t, "embeddings")
	}
	return v.Embedding.Encode(r.EmbeddingRequest, t)
}

// jsonType is the media type of requests that are not forms.
const jsonType = "application/json"

// A native request goes unchanged, under the same path, to vendors that serve the operation as OpenAI does.
type native struct {
	*openai.NativeRequest
	path, contentType string
}

func parseNative(path string) func(inbound.Head, []byte) (inbound.Request, error) {
	return func(h inbound.Head, body []byte) (inbound.Request, error) {
		contentType := h.ContentType
		r := &native{path: path, contentType: contentType}
		media, params, err := mime.ParseMediaType(contentType)
		switch {
		case contentType == "", media == jsonType:
			r.contentType = jsonType
			r.NativeRequest, err = openai.ParseNativeRequest(body)
		case err == nil:
			r.NativeRequest, err = openai.ParseFormRequest(body, params["boundary"])
		default:
			err = openai.CodeInvalidForm.New(
				"The parameters of the content-type of your request could not be read.")
		}
		if err != nil {
			return inbound.Request{}, err
		}
		return inbound.Request{Model: r.Model, Sent: r.Members(), Encoder: r}, nil
	}
}

// A moderation goes unchanged to vendors that serve it as OpenAI does, and is translated for others.
type moderation struct{ *native }

func parseModeration(_ inbound.Head, body []byte) (inbound.Request, error) {
	r, err := openai.ParseNativeRequest(body)
	if err != nil {
		return inbound.Request{}, err
	}
	return inbound.Request{Model: r.Model, Sent: r.Members(),
		Encoder: moderation{&native{r, "/moderations", jsonType}}}, nil
}

func (r moderation) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if v.Moderation != nil {
		return v.Moderation.Encode(r.NativeRequest, t)
	}
	return r.native.Encode(v, t)
}

func (r *native) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	at, ok := v.NativePath(r.path, t)
	if !ok {
		return provider.Request{}, nil, NotServed(t, "/v1"+r.path)
	}
	return provider.Request{Path: at, Header: http.Header{"Content-Type": {r.contentType}},
		Body: r.WithModel(t.Model)}, nil, nil
}
