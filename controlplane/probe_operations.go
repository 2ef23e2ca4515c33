package controlplane

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	openaiapi "github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// operations asks which of the vendor's possible operations the server has. An empty object goes to each. No server
// can run it, because it has no model and no input, so nothing is generated or charged. A status of 404, 405 or 501
// means that the operation is missing. After one of 429, 500 and more, or no answer, it is unknown. Vendors with
// paths of their own are not asked, and nor are operations that take forms.
func (p *probe) operations(ctx context.Context, api *provider.Client) []adminapi.OperationTest {
	t := provider.Target{Config: proto.CloneOf(p.config), Model: "m", Unsent: true}
	t.Config.Operations = nil
	if path, _ := p.path(provider.OpChat, t); path != "/"+provider.OpChat {
		return nil
	}
	var found []adminapi.OperationTest
	for _, name := range p.vendor.Operations() {
		path, ok := p.path(name, t)
		if !ok {
			continue
		}
		test := adminapi.OperationTest{Name: name, Configured: p.vendor.Serves(p.config, name)}
		p.status = 0
		answer, err := api.Do(ctx, http.MethodPost, path, "application/json", strings.NewReader("{}"))
		if err == nil {
			_ = answer.Body.Close() // only the status counts
		}
		test.Status = p.status
		switch {
		case test.Status == http.StatusNotFound, test.Status == http.StatusMethodNotAllowed,
			test.Status == http.StatusNotImplemented:
			test.State = adminapi.OperationMissing
		case test.Status >= http.StatusOK && test.Status < http.StatusInternalServerError &&
			test.Status != http.StatusTooManyRequests:
			test.State = adminapi.OperationAnswers
		default:
			test.State = adminapi.OperationUnknown
		}
		found = append(found, test)
	}
	return found
}

// path returns where the vendor has an operation that takes JSON.
func (p *probe) path(name string, t provider.Target) (string, bool) {
	var sent provider.Request
	var err error
	switch name {
	case provider.OpChat:
		var r *openaiapi.ChatRequest
		if r, err = openaiapi.ParseChatRequest([]byte(`{"model":"m","messages":[{"role":"user","content":"a"}]}`)); err == nil {
			sent, _, err = p.vendor.Chat.Encode(r, t)
		}
	case provider.OpCompletions:
		var r *openaiapi.CompletionRequest
		if r, err = openaiapi.ParseCompletionRequest([]byte(`{"model":"m","prompt":"a"}`)); err == nil {
			sent, _, err = p.vendor.Completion.Encode(r, t)
		}
	case provider.OpEmbeddings:
		var r *openaiapi.EmbeddingRequest
		if r, err = openaiapi.ParseEmbeddingRequest([]byte(`{"model":"m","input":"a"}`)); err == nil {
			sent, _, err = p.vendor.Embedding.Encode(r, t)
		}
	case provider.OpRerank:
		var r *openaiapi.RerankRequest
		if r, err = openaiapi.ParseRerankRequest([]byte(`{"model":"m","query":"a","documents":["a"]}`)); err == nil {
			sent, _, err = p.vendor.Rerank.Encode(r, t)
		}
	case provider.OpModerations, provider.OpResponses, "responses/compact", "images/generations", "audio/speech":
		sent.Path = "/" + name
	}
	return sent.Path, err == nil && sent.Path != ""
}

// besides says how a server's operations differ from the configured ones.
func besides(found []adminapi.OperationTest) string {
	says := func(what string, state adminapi.OperationState, configured bool) string {
		var names []string
		for _, o := range found {
			if o.State == state && o.Configured == configured {
				names = append(names, o.Name)
			}
		}
		if len(names) == 0 {
			return ""
		}
		return what + strings.Join(names, ", ") + "."
	}
	return says(" It lacks ", adminapi.OperationMissing, true) +
		says(" It also has, but operations does not name: ", adminapi.OperationAnswers, false)
}
