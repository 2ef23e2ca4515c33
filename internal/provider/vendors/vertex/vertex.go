// Package vertex is Google's Vertex AI: Gemini, Claude, and other models in OpenAI's dialect.
//
// The publisher, the first part of a model's name, selects the dialect. Requests are not signed with the configured
// credential: an account's key is exchanged for tokens that are valid for an hour.
package vertex

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/gemini"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/dialects/rerank"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

// name is the vendor's.
const name = "vertex"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		Fields:            []string{"project", "region", "api_version"},
		StreamTypes:       []string{"text/event-stream", "application/json"}, // a JSON array, where alt=sse is not honoured
		BaseURL:           baseURL,
		CredentialHosts:   append(slices.Collect(maps.Values(hosts)), "*-aiplatform.googleapis.com"),
		CredentialHeaders: []string{"authorization", "x-goog-api-key", "x-goog-user-project", "anthropic-beta"},
		Sign:              sign,
		Exchange:          exchanging(isGoogles),
		Cloud:             configv1.Google,
		DecodeError:       decodeError,
		TakesThinking:     true,
		Messages:          native{},
		Gemini:            nativeGemini{},
		Chat: legacy.Functions(codec{openaicompat.New(openaicompat.Dialect{Vendor: name, Locate: locate,
			SystemRole: true})}),
		Embedding: embedding{},
		Rerank:    rerank.New(reranking()),
	}
}

// global is the location of the endpoint that is in no region.
const global = "global"

// hosts are the locations that are not a region, and so have hosts of their own.
var hosts = map[string]string{
	global: "aiplatform.googleapis.com",
	"us":   "aiplatform.us.rep.googleapis.com",
	"eu":   "aiplatform.eu.rep.googleapis.com",
}

// baseURL returns where a project's requests go. Without a project, the API key says whose they are (express mode).
func baseURL(c *configv1.Provider) (string, error) {
	version := cmp.Or(c.GetApiVersion(), "v1")
	location := cmp.Or(c.GetRegion(), global)
	if strings.Trim(location, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return "", fmt.Errorf("is not to be found: the region %q is none, it is written like us-east5", location)
	}
	if c.GetProject() == "" {
		if location != global {
			return "", fmt.Errorf("is not to be found: set project beside region")
		}
		return "https://" + hosts[global] + "/" + version, nil
	}
	host := cmp.Or(hosts[location], location+"-aiplatform.googleapis.com")
	return "https://" + host + "/" + version + "/projects/" + url.PathEscape(c.GetProject()) + "/locations/" + location,
		nil
}

// A family is the dialect of a group of models.
type family int

const (
	google family = iota
	anthropic
	openAPI
)

// tuned begins the names of models that a project has tuned, and so are the project's own.
const tuned = "endpoints/"

// families says by its beginning which family a model's name is of, and how long its publisher is, which the path
// says. Of those that no entry is for, names with a publisher are in OpenAI's dialect, all others are Google's.
var families = []struct {
	prefix    string
	family    family
	publisher int
}{
	{"google/", google, len("google/")},
	{"anthropic/", anthropic, len("anthropic/")},
	{"claude-", anthropic, 0},
	{tuned, google, 0},
}

// familyOf returns a model's family, and its name within that.
func familyOf(model string) (family, string) {
	for _, f := range families {
		if strings.HasPrefix(model, f.prefix) {
			return f.family, model[f.publisher:]
		}
	}
	if strings.Contains(model, "/") {
		return openAPI, model
	}
	return google, model
}

// locate returns where operations in OpenAI's dialect are.
func locate(path string, _ provider.Target) string { return "/endpoints/openapi" + path }

// codec has the codec of models in OpenAI's dialect.
type codec struct{ openAPI provider.ChatCodec }

// Encode implements provider.ChatCodec.
func (c codec) Encode(r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	switch family, model := familyOf(t.Model); family {
	case openAPI:
		return c.openAPI.Encode(r, t)
	case anthropic:
		return encodeClaude(model, r, t)
	default:
		return encodeGemini(model, r, t)
	}
}

// sharedType asks for a kind of service (https://cloud.google.com/vertex-ai/generative-ai/docs/flex-paygo).
const sharedType = "X-Vertex-Ai-Llm-Shared-Request-Type"

func encodeGemini(model string, r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	m, answer, err := gemini.Encode(gemini.Service{Vendor: name, Labels: true, Storage: true, Enterprise: true}, r, t)
	if err != nil || t.Unsent {
		return provider.Request{}, nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if m.ServiceTier != "" && m.ServiceTier != "standard" {
		header.Set(sharedType, m.ServiceTier)
	}
	m.ServiceTier = ""
	body, err := m.JSON()
	if err != nil {
		return provider.Request{}, nil, err
	}
	path := resource("google", model) + gemini.Method(r.Stream)
	return provider.Request{Path: path, Header: header, Body: body, Dropped: m.Dropped, Adjusted: m.Adjusted}, answer, nil
}

// claudeVersion is what takes the place of Anthropic's version header.
const claudeVersion = "vertex-2023-10-16"

func encodeClaude(model string, r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	m, answer, err := messages.Encode(name, r, t)
	if err != nil || t.Unsent {
		return provider.Request{}, nil, err
	}
	m.Model, m.AnthropicVersion = "", claudeVersion
	body, err := m.JSON()
	if err != nil {
		return provider.Request{}, nil, messages.JSONError(err)
	}
	return provider.Request{
		Path:     claudePath(model, r.Stream),
		Header:   http.Header{"Content-Type": {"application/json"}},
		Body:     body,
		Dropped:  m.Dropped,
		Adjusted: m.Adjusted,
	}, answer, nil
}

func claudePath(model string, stream bool) string {
	if stream {
		return resource("anthropic", model) + ":streamRawPredict"
	}
	return resource("anthropic", model) + ":rawPredict"
}

// native passes requests of Anthropic's clients to Claude.
type native struct{}

// Serves implements provider.NativeCodec.
func (native) Serves(_ provider.NativeRequest, t provider.Target) bool {
	family, _ := familyOf(t.Model)
	return family == anthropic
}

// Encode implements provider.NativeCodec.
func (native) Encode(r provider.NativeRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	_, model := familyOf(t.Model)
	if r.Count { // https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/count-tokens
		m := messages.EncodeNative(name, r, t.Can(), model, claudeVersion)
		return provider.Request{Path: resource("anthropic", "count-tokens") + ":rawPredict",
			Header: http.Header{"Content-Type": {"application/json"}}, Body: m.Body, Dropped: m.Dropped}, nil, nil
	}
	m := messages.EncodeNative(name, r, t.Can(), "", claudeVersion)
	return provider.Request{Path: claudePath(model, r.Stream), Header: http.Header{"Content-Type": {"application/json"}},
		Body: m.Body, Dropped: m.Dropped}, &messages.NativeAnswer{}, nil
}

// nativeGemini passes requests of Google's clients on to Google's models.
type nativeGemini struct{}

// Serves implements provider.NativeCodec.
func (nativeGemini) Serves(_ provider.NativeRequest, t provider.Target) bool {
	family, _ := familyOf(t.Model)
	return family == google
}

// Encode implements provider.NativeCodec.
func (nativeGemini) Encode(r provider.NativeRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	_, model := familyOf(t.Model)
	sent, answer := gemini.EncodeNative(name, resource("google", model), r)
	return sent, answer, nil
}

// resource returns the path of a publisher's model, or of the project's own.
func resource(publisher, model string) string {
	if id, ok := strings.CutPrefix(model, tuned); ok {
		return "/" + tuned + url.PathEscape(id)
	}
	return "/publishers/" + publisher + "/models/" + url.PathEscape(model)
}

// decodeError reads Google's errors, and errors of other servers, such as Claude's, which may stand as text in
// Google's.
func decodeError(status int, header http.Header, body []byte) *openai.Error {
	if jsonwalk.Valid(body) {
		root := gjson.ParseBytes(body)
		if nested := root.Get("error.message").Str; strings.HasPrefix(nested, "{") &&
			gjson.Get(nested, "error.type").Exists() {
			return messages.DecodeError(status, header, []byte(nested))
		}
		switch {
		case root.Get("type").String() == "error" && root.Get("error.type").Exists():
			return messages.DecodeError(status, header, body)
		case root.Get("error.type").Exists():
			return openaicompat.DecodeError(status, header, body)
		}
	}
	return gemini.DecodeError(status, header, body)
}
