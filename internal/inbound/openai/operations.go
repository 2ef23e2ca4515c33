package openai

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/overchat"
)

// An Operation is what OpenAI's API serves under one path for a model.
type Operation struct {
	Name  string // its path without "/v1/", which is what metrics and logs call it
	Needs string // what every request has, for messages
	Forms bool   // takes forms too
	// Streams says that an answer may be translated piece by piece. Whether the client wants that is in the body, too
	// late for a choice of how the answer comes.
	Streams bool
	Says    bool // answers are text, whose length the request may bound
	Draws   bool // answers are images
	Parse   func(contentType string, body []byte) (Request, error)
	// Stream returns what writes a streamed answer, and Document what writes one that comes whole.
	Stream, Document func(chat.Asked) chat.Writer
}

// IsCounted reports whether the tokens of an answer that was cut can be counted. Of a Route, o is nil.
func (o *Operation) IsCounted() bool { return o != nil && (o.Says || !o.Forms) }

// A Request is a client's, parsed.
type Request struct {
	Model        string
	Stream       bool
	IncludeUsage bool
	Encoder
}

// An Encoder builds the request for a target, and the Answer that reads what comes back; nil for an answer that passes
// as it comes. It may be called for several targets at once. An error is an *openai.Error.
type Encoder interface {
	Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error)
}

// Operations are those that are planned, by path.
var Operations = func() map[string]*Operation {
	all := []*Operation{
		{Name: "chat/completions", Needs: "'model' and 'messages'", Parse: parseChat, Streams: true, Says: true,
			Stream: chatStream, Document: NewChatDocument},
		{Name: "completions", Needs: "'model' and 'prompt'", Parse: parseCompletion, Streams: true, Says: true,
			Stream: completionStream, Document: NewCompletionDocument},
		{Name: "embeddings", Needs: "'model' and 'input'", Parse: parseEmbedding, Document: NewChatDocument},
	}
	for _, name := range []string{
		"images/generations", "images/edits", "images/variations", "audio/speech", "audio/transcriptions",
		"audio/translations",
		"moderations", "responses",
	} {
		all = append(all, &Operation{Name: name, Needs: "'model'", Forms: name != "responses",
			Parse: parseNative("/" + name),
			Says:  name == "responses", Draws: strings.HasPrefix(name, "images/")})
	}
	m := make(map[string]*Operation, len(all))
	for _, o := range all {
		m["/v1/"+o.Name] = o
	}
	return m
}()

func chatStream(asked chat.Asked) chat.Writer { return NewChatStream(asked) }

func completionStream(asked chat.Asked) chat.Writer { return NewCompletionStream(asked) }

func unserved(t provider.Target, what string) error {
	return openai.BadRequest("model", openai.CodeUnsupportedEndpoint,
		"The provider '%s' does not serve %s. Choose another model.", t.Config.GetName(), what)
}

type chatRequest struct{ *openai.ChatRequest }

func parseChat(_ string, body []byte) (Request, error) {
	r, err := openai.ParseChatRequest(body)
	if err != nil {
		return Request{}, err
	}
	return Request{r.Model, r.Stream, r.IncludeUsage, chatRequest{r}}, nil
}

func (r chatRequest) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if v.Chat == nil {
		return provider.Request{}, nil, unserved(t, "chat completions")
	}
	return v.Chat.Encode(r.ChatRequest, t)
}

type completion struct{ *openai.CompletionRequest }

func parseCompletion(_ string, body []byte) (Request, error) {
	r, err := openai.ParseCompletionRequest(body)
	if err != nil {
		return Request{}, err
	}
	return Request{r.Model, r.Stream, r.IncludeUsage, completion{r}}, nil
}

func (r completion) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	codec := v.Completion
	if codec == nil && v.Chat != nil {
		codec = overchat.Completion(v.Chat, v.Name)
	}
	if codec == nil {
		return provider.Request{}, nil, unserved(t, "completions")
	}
	return codec.Encode(r.CompletionRequest, t)
}

type embedding struct{ *openai.EmbeddingRequest }

func parseEmbedding(_ string, body []byte) (Request, error) {
	r, err := openai.ParseEmbeddingRequest(body)
	if err != nil {
		return Request{}, err
	}
	return Request{Model: r.Model, Encoder: embedding{r}}, nil
}

func (r embedding) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if v.Embedding == nil {
		return provider.Request{}, nil, unserved(t, "embeddings")
	}
	return v.Embedding.Encode(r.EmbeddingRequest, t)
}

// jsonType is the media type of requests that are no form.
const jsonType = "application/json"

// A native request goes to vendors that serve the operation as OpenAI does, under the same path.
type native struct {
	*openai.NativeRequest
	path, contentType string
}

func parseNative(path string) func(string, []byte) (Request, error) {
	return func(contentType string, body []byte) (Request, error) {
		r := &native{path: path, contentType: contentType}
		media, params, err := mime.ParseMediaType(contentType)
		switch {
		case contentType == "", media == jsonType:
			r.contentType = jsonType
			r.NativeRequest, err = openai.ParseNativeRequest(body)
		case err == nil:
			r.NativeRequest, err = openai.ParseFormRequest(body, params["boundary"])
		default:
			err = openai.BadRequest("", openai.CodeInvalidForm,
				"The parameters of the content-type of your request could not be read.")
		}
		if err != nil {
			return Request{}, err
		}
		return Request{Model: r.Model, Encoder: r}, nil
	}
}

func (r *native) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if !slices.Contains(v.Native, r.path) {
		return provider.Request{}, nil, unserved(t, "/v1"+r.path)
	}
	return provider.Request{Path: r.path, Header: http.Header{"Content-Type": {r.contentType}},
		Body: r.WithModel(t.Model)}, nil, nil
}
