package exchange

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/overchat"
)

// An operation is what OpenAI's API serves under one path for a model.
type operation struct {
	name  string // its path without "/v1/", which is what metrics and logs call it
	needs string // what every request has, for messages
	forms bool   // takes forms too
	// streams says that an answer may be translated piece by piece. Whether the client wants that is in the body, too late
	// for a choice of how the answer comes.
	streams bool
	says    bool // answers are text, whose length the request may bound
	draws   bool // answers are images
	parse   func(contentType string, body []byte) (asked, error)
}

// isCounted reports whether the tokens of an answer that was cut can be counted. Of a Route, o is nil.
func (o *operation) isCounted() bool { return o != nil && (o.says || !o.forms) }

// asked is a request of an operation, parsed.
type asked struct {
	model        string
	stream       bool
	includeUsage bool
	encoder
}

// An encoder builds the request for a target, and the Answer that reads what comes back; nil for an answer that passes as
// it comes. It may be called for several targets at once. An error is an *openai.Error.
type encoder interface {
	encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error)
}

// operations are those that are planned, by path.
var operations = func() map[string]*operation {
	all := []*operation{
		{name: "chat/completions", needs: "'model' and 'messages'", parse: parseChat, streams: true, says: true},
		{name: "completions", needs: "'model' and 'prompt'", parse: parseCompletion, streams: true, says: true},
		{name: "embeddings", needs: "'model' and 'input'", parse: parseEmbedding},
	}
	for _, name := range []string{
		"images/generations", "images/edits", "images/variations", "audio/speech", "audio/transcriptions", "audio/translations",
		"moderations", "responses",
	} {
		all = append(all, &operation{name: name, needs: "'model'", forms: name != "responses", parse: parseNative("/" + name),
			says: name == "responses", draws: strings.HasPrefix(name, "images/")})
	}
	m := make(map[string]*operation, len(all))
	for _, o := range all {
		m["/v1/"+o.name] = o
	}
	return m
}()

func unserved(t provider.Target, what string) error {
	return openai.BadRequest("model", "unsupported_endpoint", "The provider '%s' does not serve %s. Choose another model.", t.Config.GetName(), what)
}

type chat struct{ *openai.ChatRequest }

func parseChat(_ string, body []byte) (asked, error) {
	r, err := openai.ParseChatRequest(body)
	if err != nil {
		return asked{}, err
	}
	return asked{r.Model, r.Stream, r.IncludeUsage, chat{r}}, nil
}

func (r chat) encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if v.Chat == nil {
		return provider.Request{}, nil, unserved(t, "chat completions")
	}
	return v.Chat.Encode(r.ChatRequest, t)
}

type completion struct{ *openai.CompletionRequest }

func parseCompletion(_ string, body []byte) (asked, error) {
	r, err := openai.ParseCompletionRequest(body)
	if err != nil {
		return asked{}, err
	}
	return asked{r.Model, r.Stream, r.IncludeUsage, completion{r}}, nil
}

func (r completion) encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
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

func parseEmbedding(_ string, body []byte) (asked, error) {
	r, err := openai.ParseEmbeddingRequest(body)
	if err != nil {
		return asked{}, err
	}
	return asked{model: r.Model, encoder: embedding{r}}, nil
}

func (r embedding) encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if v.Embedding == nil {
		return provider.Request{}, nil, unserved(t, "embeddings")
	}
	return v.Embedding.Encode(r.EmbeddingRequest, t)
}

// A native request goes to vendors that serve the operation as OpenAI does, under the same path.
type native struct {
	*openai.NativeRequest
	path, contentType string
}

func parseNative(path string) func(string, []byte) (asked, error) {
	return func(contentType string, body []byte) (asked, error) {
		r := &native{path: path, contentType: contentType}
		media, params, err := mime.ParseMediaType(contentType)
		switch {
		case contentType == "", media == contentTypeJSON:
			r.contentType = contentTypeJSON
			r.NativeRequest, err = openai.ParseNativeRequest(body)
		case err == nil:
			r.NativeRequest, err = openai.ParseFormRequest(body, params["boundary"])
		default:
			err = openai.BadRequest("", "invalid_form", "The parameters of the content-type of your request could not be read.")
		}
		if err != nil {
			return asked{}, err
		}
		return asked{model: r.Model, encoder: r}, nil
	}
}

func (r *native) encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if !slices.Contains(v.Native, r.path) {
		return provider.Request{}, nil, unserved(t, "/v1"+r.path)
	}
	return provider.Request{Path: r.path, Header: http.Header{"Content-Type": {r.contentType}}, Body: r.WithModel(t.Model)}, nil, nil
}
