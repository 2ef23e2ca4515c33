// Package responses is the codec of OpenAI's Responses API on the vendor's side, for chat completions. Some models
// take functions in chat completions only without reasoning. Requests that the gateway has translated go over this API
// then.
//
// Nothing is stored at the vendor: what a model thought before a call comes back encrypted, and travels in the id of
// the call, as what other vendors must get back does.
package responses

import (
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// A Dialect says how a vendor has the API.
type Dialect struct {
	Vendor string
	// Path returns the path of the API for a target, relative to the endpoint's, and whether the target has it.
	Path func(t provider.Target) (path string, ok bool)
	// Searches means that models search the web that do not in chat completions.
	Searches bool
	// InBand returns the client's error for one that came with status 200.
	InBand func(body []byte) *openai.Error
}

// New returns a codec that uses the API for the requests that need it, and inner for all others.
func New(inner provider.ChatCodec, d Dialect) provider.ChatCodec { return &codec{inner, d} }

type codec struct {
	inner   provider.ChatCodec
	dialect Dialect
}

// Encode implements provider.ChatCodec.
func (c *codec) Encode(r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	path, ok := c.dialect.Path(t)
	needed := Needed(r, t) || c.asksSearch(r, t) || !named(t, provider.OpChat)
	if !ok || !needed || !named(t, provider.OpResponses) {
		return c.inner.Encode(r, t)
	}
	chat, err := inOrder(r)
	if err != nil {
		return provider.Request{}, nil, err
	}
	e := newEncoder(&c.dialect, chat, t)
	body, err := e.body()
	if err != nil {
		return provider.Request{}, nil, err
	}
	sent := provider.Request{Path: path, Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
		Dropped: e.Names, Adjusted: e.Adjusted}
	return sent, &answer{dialect: &c.dialect, names: &e.names, provider: t.Config.GetName()}, nil
}

// named reports whether the configuration of a provider names an operation, or names none.
func named(t provider.Target, operation string) bool {
	all := t.Config.GetOperations()
	return len(all) == 0 || slices.Contains(all, operation)
}

// asksSearch reports whether a client of another dialect has the model search the web. Of OpenAI's models only a few
// do so in chat completions, and all others in responses.
func (c *codec) asksSearch(r *openai.ChatRequest, t provider.Target) bool {
	if !c.dialect.Searches || !r.Translated || t.Can().GetWebSearch() {
		return false
	}
	isSearch := func(tool jsontext.Value) bool { return turns.IsSearch(gjson.GetBytes(tool, "type").Str) }
	return r.Has("web_search_options") ||
		r.Marked(openai.MarkOtherTool) && slices.ContainsFunc(schema.Elements(r.Get("tools")), isSearch)
}

// Needed reports whether a request cannot go over chat completions as it is: the model is not there, or the request
// has tools and the model takes them there only without reasoning. The latter is left to OpenAI's clients if they ask
// OpenAI alone.
func Needed(r *openai.ChatRequest, t provider.Target) bool {
	if t.Can() != nil && t.Can().Chat != nil && !t.Can().GetChat() {
		return true
	}
	takes := t.Can() == nil || t.Can().ChatToolsWithReasoning == nil || t.Can().GetChatToolsWithReasoning()
	return t.Fits(r) && !takes && turns.Asked(r.Get("tools")) && string(r.Get("reasoning_effort")) != `"none"`
}
