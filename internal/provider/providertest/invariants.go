package providertest

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/sse"
	"github.com/modelgate/modelgate/internal/translate"
)

// An envelope has the facts that a request's client relies on, whatever the model's answer.
type envelope struct {
	request *translate.Request
	// untouched says that answers pass as they came, so that what the vendor leaves out is not there.
	untouched bool
	// bytes says that they pass byte for byte, so that nothing is promised.
	bytes bool
	// renamed says that clients know the model by another name than the vendor's.
	renamed bool
}

func newEnvelope(p provider.Provider, r *translate.Request, t provider.Target) envelope {
	untouched := slices.Contains([]string{"openai", "azure", "echo"}, p.Name)
	return envelope{r, untouched, t.Config.GetUntouchedAnswers(), r.Model != t.Model}
}

// requireModel checks the name of the model in an answer. A vendor whose answers pass as they came may give a longer
// one than it was asked for.
func (e envelope) requireModel(t testing.TB, root gjson.Result) {
	t.Helper()
	if e.untouched && !e.renamed {
		require.NotEmpty(t, root.Get("model").String())
		return
	}
	require.Equal(t, e.request.Model, root.Get("model").String(), "the client's name of the model")
}

// object is the object member of a whole answer. Chunks of completions have the same one.
func (e envelope) object() string {
	switch e.request.Endpoint {
	case translate.Completions:
		return "text_completion"
	case translate.Embeddings:
		return "list"
	case translate.Rerank:
		return ""
	}
	return "chat.completion"
}

// requireAnswer checks a whole answer.
func (e envelope) requireAnswer(t testing.TB, o outcome) {
	t.Helper()
	if e.bytes {
		return
	}
	require.True(t, gjson.Valid(o.Body), "the answer is not JSON: %s", o.Body)
	root := gjson.Parse(o.Body)
	if e.request.Endpoint == translate.Messages {
		require.Equal(t, "message", root.Get("type").Str)
		e.requireModel(t, root)
		return
	}
	require.Equal(t, e.object(), root.Get("object").String())
	e.requireModel(t, root)
	if e.request.Endpoint == translate.Rerank {
		requireRanked(t, root)
		return
	}
	if e.request.Endpoint == translate.Embeddings {
		requireEmbeddings(t, root)
		return
	}
	if e.untouched {
		return
	}
	require.NotEmpty(t, root.Get("id").String())
	require.Equal(t, gjson.Number, root.Get("created").Type)
	require.True(t, root.Get("choices").IsArray(), "choices is an array")
	for i, choice := range root.Get("choices").Array() {
		require.True(t, choice.IsObject())
		require.Equal(t, gjson.Number, choice.Get("index").Type, "choice %d has an index", i)
		require.Contains(t, finishReasons(e.request.Endpoint), choice.Get("finish_reason").String())
		if e.request.Endpoint == translate.Completions {
			require.Equal(t, gjson.String, choice.Get("text").Type)
			require.True(t, choice.Get("logprobs").Exists(), "logprobs is there, though it may be null")
			continue
		}
		e.requireMessage(t, choice)
	}
}

func (e envelope) requireMessage(t testing.TB, choice gjson.Result) {
	t.Helper()
	message := choice.Get("message")
	require.Equal(t, "assistant", message.Get("role").String())
	require.True(t, message.Get("content").Exists(), "content is there, though it may be null")
	require.True(t, message.Get("refusal").Exists(), "refusal is there, though it may be null: %s", message.Raw)
	require.True(t, choice.Get("logprobs").Exists(), "logprobs is there, though it may be null: %s", choice.Raw)
	calls := message.Get("tool_calls")
	require.False(t, calls.Exists() && len(calls.Array()) == 0, "tool_calls is left out where there are none")
	seen := map[string]bool{}
	for _, call := range calls.Array() {
		id := call.Get("id").String()
		require.NotEmpty(t, id)
		require.False(t, seen[id], "two calls have the id %s", id)
		seen[id] = true
		if call.Get("type").String() != "custom" {
			require.Equal(t, "function", call.Get("type").String())
			require.NotEmpty(t, call.Get("function.name").String())
			require.Equal(t, gjson.String, call.Get("function.arguments").Type)
		}
	}
}

// requireRanked checks that the most relevant document comes first.
func requireRanked(t testing.TB, root gjson.Result) {
	t.Helper()
	require.True(t, root.Get("results").IsArray())
	last := math.Inf(1)
	for _, r := range root.Get("results").Array() {
		require.Equal(t, gjson.Number, r.Get("index").Type)
		require.LessOrEqual(t, r.Get("relevance_score").Num, last)
		last = r.Get("relevance_score").Num
	}
}

// requireEmbeddings checks that the vectors are counted from 0 and in one of the two forms.
func requireEmbeddings(t testing.TB, root gjson.Result) {
	t.Helper()
	require.NotEmpty(t, root.Get("data").Array())
	for i, d := range root.Get("data").Array() {
		require.Equal(t, "embedding", d.Get("object").String())
		require.Equal(t, int64(i), d.Get("index").Int())
		vector := d.Get("embedding")
		require.True(t, vector.Type == gjson.String || vector.IsArray() && len(vector.Array()) > 0,
			"an embedding is base64 or numbers")
	}
	require.Equal(t, gjson.Number, root.Get("usage.prompt_tokens").Type)
	require.Equal(t, gjson.Number, root.Get("usage.total_tokens").Type)
}

// finishReasons are all that OpenAI's clients know.
func finishReasons(e translate.Endpoint) []string {
	if e == translate.Completions {
		return []string{"stop", "length", "content_filter"}
	}
	return []string{"stop", "length", "tool_calls", "content_filter", "function_call"}
}

// readEvents returns the data of each event of a stream that the gateway wrote. It has nothing but data lines.
func readEvents(t testing.TB, body string) []string {
	t.Helper()
	var events []string
	var d sse.Decoder
	d.Feed([]byte(body))
	for {
		e, ok, err := d.Next()
		require.NoError(t, err)
		if !ok {
			break
		}
		require.Empty(t, e.Name)
		require.NotContains(t, string(e.Data), "\n")
		events = append(events, string(bytes.Clone(e.Data)))
	}
	_, rest := d.Close()
	require.False(t, rest, "the stream ends with a blank line")
	return events
}

// requireError checks what clients rely on in an error.
func requireError(t testing.TB, e *openai.Error) {
	t.Helper()
	require.NotNil(t, e)
	require.GreaterOrEqual(t, e.Status, 400)
	require.LessOrEqual(t, e.Status, 599)
	body := e.AppendJSON(nil)
	require.True(t, gjson.ValidBytes(body))
	requireErrorBody(t, gjson.ParseBytes(body))
}

// requireErrorBody checks the envelope of an error: all four members are there.
func requireErrorBody(t testing.TB, root gjson.Result) {
	t.Helper()
	fault := root.Get("error")
	require.NotEmpty(t, strings.TrimSpace(fault.Get("message").String()))
	require.NotEmpty(t, fault.Get("type").String())
	for _, name := range []string{"param", "code"} {
		member := fault.Get(name)
		require.True(t, member.Exists(), "%s is there, though it may be null", name)
		require.True(t, member.Type == gjson.Null || member.Str != "", "%s is null or text", name)
	}
}
