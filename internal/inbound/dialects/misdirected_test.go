package dialects

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound"
)

// A body of one dialect that is sent to another's path is refused with the path that it is for.
func TestMisdirected(t *testing.T) {
	for _, c := range []struct{ path, body, says string }{
		{"/v1/messages", `{"model":"m","input":"a"}`,
			"messages: Field required. The body has 'input', as requests to /v1/embeddings or /v1/moderations or /v1/responses do."},
		{"/v1/chat/completions", `{"contents":[]}`, "Missing required parameter: 'model'. The body has 'contents', as requests to " +
			"/v1beta/models/MODEL:generateContent or /v1beta/models/MODEL:streamGenerateContent do."},
		{"/v1beta/models/m:generateContent", `{"messages":[]}`, "contents: Expected a list with at least one content. The body has 'messages', " +
			"as requests to /v1/chat/completions or /v1/messages do."},
		{"/v1/chat/completions", `{"model":"m","query":"a","documents":[]}`,
			"Missing required parameter: 'messages'. The body has 'documents', as requests to /v1/rerank do."},
		{"/v1/messages", `{"model":"m","messages":[{}]}`, "max_tokens: Field required."},
		{"/v1/chat/completions", `{"model":"m"}`, "Missing required parameter: 'messages'."},
		{"/v1/images/generations", `{"prompt":"a"}`, "Missing required parameter: 'model'."},
	} {
		o := Find(c.path, "")
		_, err := o.Parse(inbound.Head{Path: c.path, ContentType: "application/json"}, []byte(c.body))
		var e *openai.Error
		require.ErrorAs(t, err, &e, c.path)
		require.Equal(t, c.says, Misdirected(o, []byte(c.body), e).Message)
	}
}
