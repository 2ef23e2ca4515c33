package pitfalls

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/sse"
	"github.com/modelgate/modelgate/internal/translate"
)

// known is the catalog that is built in.
var known = catalog.New(nil)

// An upstream is one model of one vendor, and the dialect it answers in.
type upstream struct {
	name, vendor, model string
	dialect             dialect
	drops               bool // what it cannot do is dropped, as an operator may say
}

// The upstreams of other dialects than OpenAI's.
var (
	claude       = upstream{name: "anthropic", vendor: "anthropic", model: "claude-sonnet-4-5", dialect: messages}
	vertexClaude = upstream{name: "vertex's Claude", vendor: "vertex", model: "claude-sonnet-4-5@20250929",
		dialect: messages}
	gemini        = upstream{name: "gemini", vendor: "gemini", model: "gemini-3-pro-preview", dialect: google}
	vertexGemini  = upstream{name: "vertex's Gemini", vendor: "vertex", model: "gemini-3-pro-preview", dialect: google}
	bedrockClaude = upstream{name: "bedrock's Claude", vendor: "bedrock",
		model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0", dialect: converse}
	bedrockNova  = upstream{name: "bedrock's Nova", vendor: "bedrock", model: "amazon.nova-lite-v1:0", dialect: converse}
	bedrockLlama = upstream{name: "bedrock's Llama", vendor: "bedrock", model: "us.meta.llama3-3-70b-instruct-v1:0",
		dialect: converse}
	command      = upstream{name: "cohere", vendor: "cohere", model: "command-a-reasoning-08-2025", dialect: cohere}
	mistralSmall = upstream{name: "mistral", vendor: "mistral", model: "mistral-small-latest", dialect: mistral}
)

// The upstreams whose requests have the form of one dialect.
var (
	claudes  = []upstream{claude, vertexClaude}
	geminis  = []upstream{gemini, vertexGemini}
	bedrocks = []upstream{bedrockClaude, bedrockNova}
)

// foreignUpstreams are the upstreams of other dialects than OpenAI's.
func foreignUpstreams() []upstream {
	return append(slices.Concat(claudes, geminis, bedrocks), bedrockLlama, command, mistralSmall)
}

// compatible is the vendor of OpenAI's dialect of that name.
func compatible(vendor string) upstream {
	s := upstream{name: vendor, vendor: vendor, model: "some-model", dialect: openAI}
	if s.passesThrough() {
		s.dialect = openAIItself
	}
	return s
}

// allUpstreams is every vendor that there is.
func allUpstreams() []upstream {
	out := append(foreignUpstreams(),
		upstream{name: "vertex's Llama", vendor: "vertex", model: "meta/llama-4", dialect: openAI})
	for name := range all.Providers() {
		if !slices.ContainsFunc(out, func(s upstream) bool { return s.vendor == name }) {
			out = append(out, compatible(name))
		}
	}
	slices.SortStableFunc(out, func(a, b upstream) int { return strings.Compare(a.vendor, b.vendor) })
	return out
}

// toolUpstreams are those whose models call tools.
func toolUpstreams() []upstream {
	return slices.DeleteFunc(allUpstreams(), func(s upstream) bool { return s.vendor == "perplexity" })
}

// named is the upstream of that name.
func named(name string) upstream {
	i := slices.IndexFunc(allUpstreams(), func(s upstream) bool { return s.name == name })
	return allUpstreams()[i]
}

// sendsUnsplitCalls reports whether the vendor sends a call whole, and not in pieces.
func (s upstream) sendsUnsplitCalls() bool {
	return s.name == gemini.name || s.name == vertexGemini.name || s.vendor == "mistral"
}

// passesThrough reports whether a vendor's answers pass as they come: they are what OpenAI's clients rely on.
func (s upstream) passesThrough() bool {
	return slices.Contains([]string{"openai", "azure", "echo"}, s.vendor)
}

// each runs a test for each of the upstreams.
func each(t *testing.T, upstreams []upstream, test func(t *testing.T, s upstream)) {
	t.Helper()
	for _, s := range upstreams {
		t.Run(s.name, func(t *testing.T) { test(t, s) })
	}
}

// both runs a test of answers that are streamed and of answers that are not.
func both(t *testing.T, test func(t *testing.T, streamed bool)) {
	t.Helper()
	t.Run("whole", func(t *testing.T) { test(t, false) })
	t.Run("streamed", func(t *testing.T) { test(t, true) })
}

// asked is the model as clients name it.
const asked = "our/model"

// chat is a request with a user's message, and further members.
func chat(members string) string { return chatRequest(`{"role":"user","content":"hi"}`, members) }

// chatRequest is a request with messages, and further members.
func chatRequest(conversation, members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"model":"` + asked + `","messages":[` + conversation + `]` + members + `}`
}

// tools declares the functions that the models of these tests call.
const tools = `"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}},{"type":"function","function":{"name":"clock","parameters":{"type":"object","properties":{}}}}]`

// streams asks for a stream and for its usage.
const streams = `"stream":true,"stream_options":{"include_usage":true}`

func (s upstream) target() (provider.Provider, provider.Target) {
	p := all.Providers()[s.vendor]
	config := &configv1.Provider{}
	if s.drops {
		config.UnsupportedParameters = configv1.UnsupportedParameters_DROP
	}
	return p, provider.Target{Config: translate.Complete(p, config), Model: s.model,
		Facts: known.Facts(s.vendor, s.model)}
}

func (s upstream) exchange(e translate.Endpoint, request string) (*translate.Exchange, provider.Request, error) {
	p, target := s.target()
	r, err := translate.Parse(p, e, []byte(request))
	if err != nil {
		return nil, provider.Request{}, err
	}
	encoded, a, err := r.Encode(target)
	return &translate.Exchange{Provider: p, Request: r, Answer: a, Dropped: encoded.Dropped, Created: 1700000000},
		encoded, err
}

// A sent is what the vendor is sent.
type sent struct {
	path    string
	header  http.Header
	body    gjson.Result
	dropped []string
}

// ask returns what the vendor is sent for a client's request, which it takes.
func (s upstream) ask(t *testing.T, request string) sent {
	t.Helper()
	return s.askFor(t, translate.Chat, request)
}

func (s upstream) askFor(t *testing.T, e translate.Endpoint, request string) sent {
	t.Helper()
	_, r, err := s.exchange(e, request)
	require.NoError(t, err, request)
	require.True(t, gjson.ValidBytes(r.Body), "%s", r.Body)
	return sent{r.Path, r.Header, gjson.ParseBytes(r.Body), r.Dropped}
}

// refuses returns the error that a client gets for a request which the vendor cannot serve.
func (s upstream) refuses(t *testing.T, request string) *openai.Error {
	t.Helper()
	return s.refusesFor(t, translate.Chat, request)
}

func (s upstream) refusesFor(t *testing.T, e translate.Endpoint, request string) *openai.Error {
	t.Helper()
	_, r, err := s.exchange(e, request)
	require.Error(t, err, "the vendor would be sent %s", r.Body)
	var refusal *openai.Error
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, http.StatusBadRequest, refusal.Status)
	require.Equal(t, openai.TypeInvalidRequest, refusal.Type)
	return refusal
}

// respond returns what the client gets if the vendor answers so. The request is asked as a stream if it is to be
// streamed.
func (s upstream) respond(t *testing.T, what completion, request string, streamed bool) answer {
	t.Helper()
	if !streamed {
		return s.send(t, request, false, s.dialect.unary(what))
	}
	return s.send(t, request, true, s.dialect.stream(what)...)
}

// send returns what the client gets if the vendor sends these pieces with status 200.
func (s upstream) send(t *testing.T, request string, streamed bool, pieces ...string) answer {
	t.Helper()
	if streamed && !gjson.Get(request, "stream").Exists() {
		request = strings.TrimSuffix(request, "}") + "," + streams + "}"
	}
	x, _, err := s.exchange(translate.Chat, request)
	require.NoError(t, err)
	return read(t, x, translate.Response{Status: http.StatusOK, Header: http.Header{}}, pieces...)
}

// before returns what the client has once the first pieces of a stream have come, and the rest has not.
func (s upstream) before(t *testing.T, request string, pieces []string) string {
	t.Helper()
	x, _, err := s.exchange(translate.Chat, request)
	require.NoError(t, err)
	w := chattest.NewStream(asked, 1700000000, true)
	stream := x.Answer.Stream(w.Asked)
	var out []byte
	for _, p := range pieces {
		require.NoError(t, stream.Decode([]byte(p), w))
		out = append(out, w.Take()...)
	}
	return string(out)
}

// fails returns what the client gets where the vendor answers with an error status.
func (s upstream) fails(t *testing.T, status int, header http.Header, body string) answer {
	t.Helper()
	x, _, err := s.exchange(translate.Chat, chat(""))
	require.NoError(t, err)
	return read(t, x, translate.Response{Status: status, Header: header}, body)
}

// An answer is what a client has read.
type answer struct {
	status                   int
	header                   http.Header
	body                     string
	id, model                string
	text, reasoning, refusal string
	calls                    []call
	stop                     string
	choices                  map[int64]*choice // of a stream: each by its index
	usage                    gjson.Result      // does not exist where there is none
	failure                  gjson.Result      // the error, or one that does not exist
	done                     bool              // the end mark of a stream has come
	chunks                   []gjson.Result
	all                      gjson.Result // of what is not streamed: the body
}

// A choice is one of a stream's.
type choice struct {
	text, stop string
	calls      []call
	roles      int
	deltas     int // of arguments
}

// read lets the exchange take the vendor's answer, and reads what the client gets as strictly as clients do.
func read(t *testing.T, x *translate.Exchange, from translate.Response, pieces ...string) answer {
	t.Helper()
	var body [][]byte
	for _, p := range pieces {
		body = append(body, []byte(p))
	}
	to := x.Respond(from, body...)
	a := answer{status: to.Status, header: to.Header, body: string(to.Body), choices: map[int64]*choice{}}
	if strings.HasPrefix(to.Header.Get("Content-Type"), "text/event-stream") {
		a.readStream(t, x.Request.IncludeUsage, !compatible(x.Provider.Name).passesThrough())
		return a
	}
	require.True(t, gjson.Valid(a.body), a.body)
	a.all = gjson.Parse(a.body)
	if a.failure = a.all.Get("error"); a.failure.Exists() {
		requireFailure(t, a.failure)
		return a
	}
	require.True(t, a.all.Get("choices").IsArray(), a.body)
	message := a.all.Get("choices.0.message")
	a.id, a.model, a.usage = a.all.Get("id").Str, a.all.Get("model").Str, a.all.Get("usage")
	a.text, a.refusal, a.reasoning = message.Get("content").Str, message.Get("refusal").Str,
		message.Get("reasoning_content").Str
	a.stop = a.all.Get("choices.0.finish_reason").Str
	for _, c := range message.Get("tool_calls").Array() {
		require.False(t, c.Get("index").Exists(), "an index in %s", c.Raw)
		require.Equal(t, "function", c.Get("type").Str)
		require.Equal(t, gjson.String, c.Get("function.arguments").Type)
		a.calls = append(a.calls, call{c.Get("id").Str, c.Get("function.name").Str, c.Get("function.arguments").Str})
	}
	return a
}

// requireFailure checks that all four members are there.
func requireFailure(t *testing.T, failure gjson.Result) {
	t.Helper()
	require.NotEmpty(t, failure.Get("message").Str, failure.Raw)
	require.NotEmpty(t, failure.Get("type").Str, failure.Raw)
	for _, member := range []string{"param", "code"} {
		require.True(t, failure.Get(member).Exists(), failure.Raw)
	}
}

// events returns the data of a stream's events. Strictly read, there is nothing but a line of data in each.
func events(t *testing.T, body string, strict bool) []string {
	t.Helper()
	var out []string
	var d sse.Decoder
	d.Feed([]byte(body))
	for {
		e, ok, err := d.Next()
		require.NoError(t, err)
		if !ok {
			break
		}
		out = append(out, string(e.Data))
	}
	_, rest := d.Close()
	require.False(t, rest, "the last event ends: %q", body)
	if strict {
		require.Equal(t, "data: "+strings.Join(out, "\n\ndata: ")+"\n\n", body)
	}
	return out
}

func (a *answer) readStream(t *testing.T, usage, strict bool) {
	t.Helper()
	for _, text := range events(t, a.body, strict) {
		require.False(t, a.done || a.failure.Exists(), "after the end comes %s", text)
		if text == "[DONE]" {
			a.done = true
			continue
		}
		require.True(t, gjson.Valid(text), text)
		c := gjson.Parse(text)
		if a.failure = c.Get("error"); a.failure.Exists() {
			requireFailure(t, a.failure)
			continue
		}
		a.chunks = append(a.chunks, c)
		a.readChunk(t, c, usage)
	}
	for _, c := range a.choices {
		require.Equal(t, 1, c.roles, "one role")
		require.True(t, c.stop != "" || !a.done, "a finish reason where the stream is complete")
	}
	if first := a.choices[0]; first != nil {
		a.text, a.calls, a.stop = first.text, first.calls, first.stop
	}
}

func (a *answer) readChunk(t *testing.T, c gjson.Result, usage bool) {
	t.Helper()
	if a.id == "" {
		a.id, a.model = c.Get("id").Str, c.Get("model").Str
	}
	require.NotEmpty(t, a.id)
	require.Equal(t, a.id, c.Get("id").Str)
	require.Equal(t, a.model, c.Get("model").Str)
	require.Equal(t, "chat.completion.chunk", c.Get("object").Str)
	require.True(t, c.Get("choices").IsArray(), c.Raw)
	choices := c.Get("choices").Array()
	require.Equal(t, usage, c.Get("usage").Exists(), c.Raw)
	require.Equal(t, usage && len(choices) == 0, c.Get("usage").IsObject(), c.Raw)
	if c.Get("usage").IsObject() {
		require.False(t, a.usage.Exists(), "usage comes once")
		a.usage = c.Get("usage")
		return
	}
	require.NotEmpty(t, choices, c.Raw)
	require.False(t, a.usage.Exists(), "usage comes last")
	for _, part := range choices {
		a.readChoice(t, part)
	}
}

func (a *answer) readChoice(t *testing.T, part gjson.Result) {
	t.Helper()
	require.Equal(t, gjson.Number, part.Get("index").Type, part.Raw)
	n := part.Get("index").Int()
	if a.choices[n] == nil {
		a.choices[n] = &choice{}
	}
	c := a.choices[n]
	require.Empty(t, c.stop, "after the finish reason comes %s", part.Raw)
	delta := part.Get("delta")
	require.True(t, delta.IsObject(), part.Raw)
	if delta.Get("role").Exists() {
		c.roles++
	}
	require.Equal(t, 1, c.roles, "the role comes first: %s", part.Raw)
	c.text += delta.Get("content").Str
	a.reasoning += delta.Get("reasoning_content").Str
	a.refusal += delta.Get("refusal").Str
	for _, d := range delta.Get("tool_calls").Array() {
		require.Equal(t, gjson.Number, d.Get("index").Type, d.Raw)
		i := int(d.Get("index").Int())
		require.LessOrEqual(t, i, len(c.calls), "calls are counted from 0: %s", d.Raw)
		if i == len(c.calls) {
			require.NotEmpty(t, d.Get("id").Str, d.Raw)
			require.NotEmpty(t, d.Get("function.name").Str, d.Raw)
			c.calls = append(c.calls, call{id: d.Get("id").Str, name: d.Get("function.name").Str})
		}
		c.calls[i].arguments += d.Get("function.arguments").Str
		if d.Get("function.arguments").Str != "" {
			c.deltas++
		}
	}
	require.True(t, part.Get("finish_reason").Exists(), part.Raw)
	if c.stop = part.Get("finish_reason").Str; c.stop != "" {
		require.Contains(t, []string{"stop", "length", "tool_calls", "content_filter", "function_call"}, c.stop)
	}
}

// echo is the assistant's message as a stock client sends it back: of what it does not know, nothing is left.
func (a answer) echo() string {
	return `{"role":"assistant","content":` + quoteOrNull(a.text) + `,"tool_calls":` + openAICalls(a.calls) + `}`
}

// results are the messages with the results of an answer's calls.
func (a answer) results() string {
	var out []string
	for _, c := range a.calls {
		out = append(out, `{"role":"tool","tool_call_id":"`+c.id+`","content":"sunny"}`)
	}
	return strings.Join(out, ",")
}

// soon is how long a test waits for what must happen at once.
const soon = 10 * time.Second
