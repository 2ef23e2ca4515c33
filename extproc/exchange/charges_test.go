package exchange_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/vendors/anthropic"
	"github.com/modelgate/modelgate/internal/provider/vendors/gemini"
	"github.com/modelgate/modelgate/internal/tokens"
	"github.com/modelgate/modelgate/test/charges"
)

// A wording is how a vendor's answers are written. %s stands for text, %d for the counts of the prompt and the answer.
type wording struct {
	begin, word, usage, end string // of a stream
	broken                  string // an error within it
	failed                  string // a failure that reports usage; "": there is none
	whole, silent           string // a whole answer, and one without usage
}

const (
	ofPrompt = 777
	ofAnswer = 55
	words    = 100 // that a stream has said before it is cut
)

var (
	saidChat = wording{
		begin:  role,
		word:   "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]}\n\n",
		usage:  "data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":777,\"completion_tokens\":55,\"total_tokens\":832}}\n\n",
		end:    over,
		broken: failure,
		whole:  `{"id":"c","object":"chat.completion","created":1,"model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":777,"completion_tokens":55,"total_tokens":832}}`,
		silent: `{"id":"c","object":"chat.completion","created":1,"model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}]}`,
	}
	saidCompletions = wording{
		word:   "data: {\"id\":\"c\",\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":\" word\"}]}\n\n",
		usage:  saidChat.usage,
		end:    over,
		broken: failure,
		whole:  `{"id":"c","object":"text_completion","created":1,"model":"m-1","choices":[{"index":0,"text":"%s","finish_reason":"stop"}],"usage":{"prompt_tokens":777,"completion_tokens":55,"total_tokens":832}}`,
		silent: `{"id":"c","object":"text_completion","created":1,"model":"m-1","choices":[{"index":0,"text":"%s","finish_reason":"stop"}]}`,
	}
	saidResponses = wording{
		begin:  created,
		word:   "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\" word\"}\n\n",
		end:    "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"model\":\"m-1\"%s}}\n\n",
		broken: anError,
		failed: "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"model\":\"m-1\",\"usage\":{\"input_tokens\":777,\"output_tokens\":55,\"total_tokens\":832}}}\n\n",
		whole:  `{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"%s"}]}],"usage":{"input_tokens":777,"output_tokens":55,"total_tokens":832}}`,
	}
	saidAnthropic = wording{
		begin:  "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m-1\",\"content\":[]}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
		word:   "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" word\"}}\n\n",
		usage:  "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":777,\"output_tokens\":55}}\n\n",
		end:    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		broken: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"no\"}}\n\n",
		whole:  `{"id":"m","type":"message","role":"assistant","model":"m-1","content":[{"type":"text","text":"%s"}],"stop_reason":"end_turn","usage":{"input_tokens":777,"output_tokens":55}}`,
		silent: `{"id":"m","type":"message","role":"assistant","model":"m-1","content":[{"type":"text","text":"%s"}],"stop_reason":"end_turn"}`,
	}
	saidGemini = wording{
		word:   "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\" word\"}]},\"index\":0}]}\n\n",
		usage:  "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"\"}]},\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":777,\"candidatesTokenCount\":55,\"totalTokenCount\":832}}\n\n",
		broken: "data: {\"error\":{\"code\":500,\"message\":\"no\",\"status\":\"INTERNAL\"}}\n\n",
		whole:  `{"candidates":[{"content":{"role":"model","parts":[{"text":"%s"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":777,"candidatesTokenCount":55,"totalTokenCount":832}}`,
		silent: `{"candidates":[{"content":{"role":"model","parts":[{"text":"%s"}]},"finishReason":"STOP","index":0}]}`,
	}
	saidVectors = wording{whole: `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,0.25]}],"model":"m-1","usage":{"prompt_tokens":777,"completion_tokens":55,"total_tokens":832}}`,
		silent: `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,0.25]}],"model":"m-1"}`}
	// An image has a token for 48 bytes, and text that was heard one for four.
	saidImages = wording{whole: `{"created":1,"data":[{"b64_json":"` + strings.Repeat("AAAA", 1200) + `%s"}],"usage":{"input_tokens":777,"output_tokens":55,"total_tokens":832}}`}
	saidHeard  = wording{whole: `{"text":"%s","usage":{"type":"tokens","input_tokens":777,"output_tokens":55,"total_tokens":832}}`,
		silent: `{"text":"%s"}`}
)

// A walked is an operation as a client asks for it of a vendor.
type walked struct {
	operation, model string
	path, body       string // %m stands for the model, and %s for the prompt
	says             wording
	stream           bool
}

func walks() (all []walked) {
	const chat, messages = `{"model":"%m","messages":[{"role":"user","content":"%s"}]%stream}`,
		`{"model":"%m","max_tokens":40,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"%s"}}]}]%stream}`
	const turn = `{"contents":[{"role":"user","parts":[{"text":"%s"}]}]}`
	for _, stream := range []bool{false, true} {
		method := "generateContent"
		path := "/v1beta/models/%m:generateContent"
		if stream {
			method, path = "streamGenerateContent", "/v1beta/models/%m:streamGenerateContent?alt=sse"
		}
		all = append(all,
			walked{"chat/completions", "a/m-1", "/v1/chat/completions", chat, saidChat, stream},
			walked{"chat/completions", "ant/m-1", "/v1/chat/completions", chat, saidAnthropic, stream},
			walked{"chat/completions", "gem/m-1", "/v1/chat/completions", chat, saidGemini, stream},
			walked{"completions", "a/m-1", "/v1/completions", `{"model":"%m","prompt":"%s"%stream}`, saidCompletions, stream},
			walked{"responses", "a/m-1", "/v1/responses", `{"model":"%m","input":[{"role":"user","content":"%s"}]%stream}`, saidResponses, stream},
			walked{"responses", "ant/m-1", "/v1/responses", `{"model":"%m","input":"%s"%stream}`, saidAnthropic, stream},
			walked{"messages", "a/m-1", "/v1/messages", messages, saidChat, stream},
			walked{"messages", "ant/m-1", "/v1/messages", messages, saidAnthropic, stream},
			walked{method, "a/m-1", path, turn, saidChat, stream},
			walked{method, "gem/m-1", path, turn, saidGemini, stream},
		)
	}
	return append(all,
		walked{"embeddings", "a/m-1", "/v1/embeddings", `{"model":"%m","input":["%s"]}`, saidVectors, false},
		walked{"embedContent", "a/m-1", "/v1beta/models/%m:embedContent",
			`{"content":{"parts":[{"text":"%s"}]}}`, saidVectors, false},
		walked{"batchEmbedContents", "a/m-1", "/v1beta/models/%m:batchEmbedContents",
			`{"requests":[{"content":{"parts":[{"text":"%s"}]}}]}`, saidVectors, false},
		walked{"moderations", "a/m-1", "/v1/moderations", `{"model":"%m","input":"%s"}`, saidVectors, false},
		walked{"images/generations", "a/m-1", "/v1/images/generations", `{"model":"%m","prompt":"%s"}`, saidImages, false},
		walked{"images/edits", "a/m-1", "/v1/images/edits", formOf("prompt"), saidImages, false},
		walked{"audio/transcriptions", "a/m-1", "/v1/audio/transcriptions", formOf("prompt"), saidHeard, false},
		walked{"audio/translations", "a/m-1", "/v1/audio/translations", formOf("prompt"), saidHeard, false},
		walked{"route", "", "/r/v1/messages", "", saidAnthropic, true},
	)
}

// formOf returns a form with a field of text.
func formOf(field string) string {
	part := "--b\r\nContent-Disposition: form-data; name=\"%n\"\r\n\r\n"
	return strings.Replace(part, "%n", "model", 1) + "%m\r\n" + strings.Replace(part, "%n", field, 1) + "%s\r\n--b--\r\n"
}

// A walk is one request of a case.
type walk struct {
	walked
	*meter
	x      *exchange.Exchange
	plan   *routing.Plan
	prompt string
}

// newWalk sends a request. An empty prompt is one that the gateway refuses.
func (c walked) newWalk(t *testing.T, prompt string) *walk {
	key := fullKey()
	key.Limits[1].RequestsPerUnit = 1_000_000
	w := &walk{walked: c, meter: newMeter(t, key), prompt: prompt}
	for name, v := range map[string]provider.Provider{"ant": anthropic.Provider(), "gem": gemini.Provider()} {
		config := &configv1.Provider{Name: name, Vendor: v.Name}
		p, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: config, Credential: "sk"}, v)
		require.NoError(t, err)
		w.config.Providers[name] = p
	}
	first, _, _ := strings.Cut(c.model, "/")
	w.config.Models["two"] = &configv1.Model{Name: "two", Targets: []*configv1.Target{{Provider: first, Model: "m-1"},
		{Provider: first, Model: "m-1"}}, Retry: &configv1.Retry{}}
	w.env.Tried = timedOut{}
	w.configure()
	streamed := ""
	if c.stream {
		streamed = `,"stream":true`
	}
	fill := strings.NewReplacer("%m", c.model, "%stream", streamed, "%s", prompt)
	body := fill.Replace(c.body)
	if c.operation == "route" {
		body = ""
	}
	var reply exchange.Reply
	w.x, reply = w.ask(fill.Replace(c.path), body, exchange.Header{Name: "content-length",
		Value: fmt.Sprint(max(len(body), len(prompt)))})
	w.plan = reply.Plan
	require.True(t, prompt == "" || reply.Plan != nil, "%+v", reply.Immediate)
	return w
}

// timedOut tells of every attempt but the last that it got no answer in time.
type timedOut struct{ refused bool }

// Tell implements exchange.Tried.
func (o timedOut) Tell(tries []metering.Try) {
	for i := range len(tries) - 1 {
		tries[i].Known, tries[i].Error = true, "timeout"
		if o.refused {
			tries[i].Status, tries[i].Error = 503, "status 503"
		}
	}
}

func (w *walk) head(status, media string, attempts int) {
	name, _, _ := strings.Cut(w.model, "/")
	if name == "" {
		name = "a"
	}
	w.x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: status}, {Name: "content-type", Value: media}},
		exchange.Facts{Cluster: name + "/first", Attempts: attempts, CodeDetails: envoy.CodeDetailsUpstream}, false)
}

// begins answers with status 200.
func (w *walk) begins(attempts int) {
	media := "application/json"
	if w.stream {
		media = "text/event-stream"
	}
	w.head("200", media, attempts)
}

func (w *walk) pieces(end bool, all ...string) {
	for i, piece := range all {
		w.x.ResponseBody(context.Background(), []byte(piece), end && i == len(all)-1)
	}
}

// said is a stream that has said its words.
func (w *walk) said() string { return w.says.begin + strings.Repeat(w.says.word, words) }

// half is the first part of a whole answer that says the words.
func (w *walk) half() string {
	before, _, said := strings.Cut(w.says.whole, "%s")
	if !said {
		return before[:len(before)/2]
	}
	return before + strings.Repeat(" word", words)
}

// answers gives a complete answer.
func (w *walk) answers(reports bool, attempts int) {
	w.begins(attempts)
	text := strings.Repeat(" word", words)
	switch {
	case !w.stream && reports:
		w.pieces(true, strings.Replace(w.says.whole, "%s", text, 1))
	case !w.stream:
		w.pieces(true, strings.Replace(w.says.silent, "%s", text, 1))
	default:
		usage, end := w.says.usage, w.says.end
		if strings.Contains(end, "%s") {
			usage = `,"usage":{"input_tokens":777,"output_tokens":55,"total_tokens":832}`
			if !reports {
				usage = ""
			}
			usage, end = "", strings.Replace(end, "%s", usage, 1)
		}
		if !reports {
			usage = ""
		}
		w.pieces(true, w.said(), usage+end)
	}
}

func (w *walk) envoys(status, details string) {
	w.x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: status}},
		exchange.Facts{Cluster: "a/first", Attempts: 1, CodeDetails: details}, false)
}

// errNone means that a case has no such end.
type errNone struct{}

// ends are the ways of the table that an exchange has. A nil one is walked elsewhere: in the tests of the cache, of
// sessions, and in test/hostile.
var ends = map[string]func(w *walk){
	charges.Finished: func(w *walk) { w.answers(true, 1) },
	charges.Silent: func(w *walk) {
		if !w.stream && w.says.silent == "" || w.operation == "route" || w.model == "gem/m-1" && w.stream {
			panic(errNone{})
		}
		w.answers(false, 1)
	},
	charges.LeftBefore: func(*walk) {},
	charges.LeftWithin: func(w *walk) { w.within(false, "") },
	charges.LeftAfter: func(w *walk) {
		if !w.stream || w.says.usage == "" {
			panic(errNone{})
		}
		w.begins(1)
		w.pieces(false, w.said(), w.says.usage)
	},
	charges.CutWithin: func(w *walk) { w.within(true, "") },
	charges.ErrorWithin: func(w *walk) {
		if !w.stream {
			panic(errNone{})
		}
		w.within(false, w.says.broken)
	},
	charges.ErrorFirst: func(w *walk) {
		w.begins(1)
		if w.stream {
			w.pieces(true, w.says.begin+w.says.broken)
			return
		}
		w.pieces(true, `{"error":{"message":"no","type":"server_error","code":"server_error"},"output":[],"status":"failed"}`)
	},
	charges.FailedReported: func(w *walk) {
		if !w.stream || w.says.failed == "" {
			panic(errNone{})
		}
		w.begins(1)
		w.pieces(true, w.says.begin+w.says.failed)
	},
	charges.Unusable: func(w *walk) {
		w.begins(1)
		if w.stream {
			w.pieces(false, w.said()+"data: {\"nonsense\n\n")
			return
		}
		w.pieces(true, w.half())
	},
	charges.Refused: func(w *walk) {
		w.head("429", "application/json", 1)
		w.pieces(true, `{"error":{"message":"no"}}`)
	},
	charges.TimedOut:     func(w *walk) { w.envoys("504", "upstream_per_try_timeout") },
	charges.Unreached:    func(w *walk) { w.envoys("503", "no_healthy_upstream") },
	charges.TriedUnheard: func(w *walk) { w.tried(timedOut{}) },
	charges.TriedRefused: func(w *walk) { w.tried(timedOut{refused: true}) },

	charges.GatewayRefuses: nil, charges.Killed: nil, charges.FromCache: nil, charges.Cancelled: nil,
	charges.WorkerDied: nil, charges.AskedTwice: nil, charges.NativeEnds: nil, charges.SessionDone: nil,
	charges.SessionCut: nil, charges.SessionFail: nil, charges.RouteUnread: nil,
}

// likeOthers are operations that are walked as others of their kind, or in a test of their own: sound that is made.
var likeOthers = []string{"responses/compact", "rerank", "images/variations", "audio/speech"}

// within says something, and an error or nothing after it.
func (w *walk) within(end bool, after string) {
	w.begins(1)
	switch {
	case w.stream:
		w.pieces(end, w.said(), after)
	case end && w.operation != "responses": // malformed: see Unusable
		panic(errNone{})
	default:
		w.pieces(end, w.half())
	}
}

// tried has a first attempt end, and a second one answer.
func (w *walk) tried(o timedOut) {
	w.env.Tried = o
	_, err := w.plan.Encode(2)
	require.NoError(w.meter.t, err)
	w.answers(true, 2)
}

// TestEveryWayToEndIsChargedByTheTable has a vendor answer each operation, in each of its dialects, in each way, and
// compares what it did with the ledger and the limits.
func TestEveryWayToEndIsChargedByTheTable(t *testing.T) {
	prompt := strings.TrimSpace(strings.Repeat("the gateway charges what a provider has done for it. ", 300))
	walkedWays, cases, kinds := map[string]bool{}, 0, charges.Operations()
	for _, c := range walks() {
		for _, row := range charges.Rows {
			end, known := ends[row.Way]
			require.True(t, known, "%s is walked nowhere", row.Way)
			if end == nil || !slices.Contains(row.Kinds, kinds[c.operation]) ||
				strings.HasPrefix(row.Way, "an earlier attempt") && c.operation == "route" {
				continue
			}
			name := fmt.Sprint(c.operation, " of ", c.model, " stream ", c.stream, ": ", row.Way)
			t.Run(name, func(t *testing.T) {
				c := c
				if strings.HasPrefix(row.Way, "an earlier attempt") {
					provider, _, _ := strings.Cut(c.model, "/")
					c.model = provider + "/m-1"
					c.path, c.body = strings.ReplaceAll(c.path, "%m", "two"), strings.ReplaceAll(c.body, "%m", "two")
				}
				w := c.newWalk(t, prompt)
				if w.ends(end) {
					r := w.x.Close()
					w.compare(t, &row, &r)
					walkedWays[row.Way], cases = true, cases+1
				}
			})
		}
	}
	for name, kind := range kinds {
		is := func(c walked) bool { return c.operation == name }
		require.True(t, slices.Contains([]charges.Kind{charges.Job, charges.Session, charges.Count}, kind) ||
			slices.Contains(likeOthers, name) || slices.ContainsFunc(walks(), is), "%s is walked nowhere", name)
	}
	for way, end := range ends {
		require.Equal(t, end != nil, walkedWays[way], way)
	}
	require.Greater(t, cases, 200)
}

// ends reports whether the case has the end.
func (w *walk) ends(end func(*walk)) (has bool) {
	defer func() {
		if why := recover(); why != nil {
			if _, none := why.(errNone); !none {
				panic(why)
			}
			has = false
		}
	}()
	end(w)
	return true
}

// compare holds the ledger against what the vendor did.
func (w *walk) compare(t *testing.T, row *charges.Row, r *metering.Record) {
	e := r.Entry()
	vendor, _, _ := strings.Cut(w.model, "/")
	want := tokens.Count(map[string]string{"ant": "anthropic", "gem": "gemini"}[vendor], "m-1", w.prompt)
	reported := int64(ofPrompt)
	if row.Way == charges.TriedUnheard {
		row = &charges.Row{Way: row.Way, Prompt: charges.Reported, Answer: row.Answer}
		reported *= 2
	}
	charged(t, "prompt", row.Prompt, e.GetInputTokens(), want, reported)
	answer := e.GetOutputTokens()
	if w.operation == "route" && row.Answer == charges.Counted {
		require.GreaterOrEqual(t, answer, int64(words))
		answer = int64(float64(answer) * charges.Most / charges.MostPassed)
		answer = max(answer, words)
	}
	charged(t, "answer", row.Answer, answer, words, ofAnswer)
	require.Len(t, w.settled, 1, "once")
	require.Equal(t, e.GetInputTokens(), w.settled[0][limit.InputTokens])
	require.Equal(t, e.GetOutputTokens(), w.settled[0][limit.OutputTokens])
	require.Equal(t, e.GetCostNanoUsd(), w.settled[0][limit.Cost])
	begun := w.begun[0] // if the process is killed
	charged(t, "prompt", charges.Counted, begun.GetInputTokens(), want, 0)
	require.Zero(t, begun.GetOutputTokens())
}

func charged(t *testing.T, what string, fee charges.Fee, got, counted, reported int64) {
	t.Helper()
	switch fee {
	case charges.Nothing:
		require.Zero(t, got, what)
	case charges.Reported:
		require.Equal(t, reported, got, what)
	case charges.Counted:
		require.GreaterOrEqual(t, float64(got), charges.Least*float64(counted), what)
		require.LessOrEqual(t, float64(got), charges.Most*float64(counted)+charges.Frame, what)
	}
}
