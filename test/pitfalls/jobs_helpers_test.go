package pitfalls

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// A jobGateway is a whole one, with a client of its first key. Its providers, of several vendors, are played by one
// worker.
type jobGateway struct {
	*harness.Gateway
	client harness.Client
	worker *worker
}

// overJobs starts a gateway. Models of "openai" need no more than a name.
func overJobs(t *testing.T, flags ...string) jobGateway {
	w := newWorker(t)
	g := harness.Run(t, t.TempDir(), flags...)
	g.Apply(t, w.config()...)
	j := jobGateway{g, g.As(g.Key), w}
	harness.Eventually(t, "configuration in force", func() error { return j.has("openai/any", "anthropic/any") })
	return j
}

// has is an error until the gateway has all of the models.
func (g jobGateway) has(models ...string) error {
	for _, m := range models {
		var any struct{}
		if err := g.client.Try(http.MethodGet, "/v1/models/"+m, &any); err != nil {
			return err
		}
	}
	return nil
}

// A worker answers for the providers, and counts which line it was asked how often. A line is known by the words
// line-N in it.
type worker struct {
	*httptest.Server
	mu     sync.Mutex // guards what follows
	answer func(w http.ResponseWriter, r *http.Request, a asking)
	asked  []asking
}

// An asking is one request for an answer.
type asking struct {
	path   string
	line   string // "" where it is of no line
	body   gjson.Result
	header http.Header
	length int64  // as the request says it, -1 where it comes in chunks
	uri    string // as it came, with what is escaped in it
}

var lineMark = regexp.MustCompile(`line-\d+`)

func newWorker(t *testing.T) *worker {
	v := &worker{answer: answerLine}
	v.Server = cases.NewProvider(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		a := asking{r.URL.Path, lineMark.FindString(string(body)), gjson.ParseBytes(body), r.Header.Clone(), r.ContentLength,
			r.RequestURI}
		v.mu.Lock()
		answer := v.answer
		if r.Method == http.MethodPost {
			v.asked = append(v.asked, a)
		}
		v.mu.Unlock()
		answer(w, r, a)
	})
	return v
}

// answers sets how the worker answers from now on, and forgets what it was asked.
func (v *worker) answers(answer func(w http.ResponseWriter, r *http.Request, a asking)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answer, v.asked = answer, nil
}

// times returns how often each line was asked.
func (v *worker) times() map[string]int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := map[string]int{}
	for _, a := range v.asked {
		if a.line != "" {
			n[a.line]++
		}
	}
	return n
}

// each vendor of which there is a provider by the same name, and where that vendor's API begins.
var jobVendors = map[string]string{"openai": "/v1", "anthropic": "/v1", "gemini": "", "cohere": "", "mistral": "/v1",
	"bedrock": ""}

func (v *worker) config() []configv1.Object {
	var all []configv1.Object
	for name, prefix := range jobVendors {
		credential := "credential"
		if name == "bedrock" {
			credential = "AKIDEXAMPLE:secret"
		}
		all = append(all, &configv1.Provider{Name: name, Vendor: name,
			Region:     map[string]string{"bedrock": "us-east-1"}[name],
			Endpoint:   v.URL + "/" + name + prefix,
			Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: credential}}})
	}
	return all
}

// answerLine answers in OpenAI's dialect with the line's name, for 3 and 2 tokens.
func answerLine(w http.ResponseWriter, _ *http.Request, a asking) { answerText(w, a.line) }

func answerText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, openAI.unary(completion{text: text, stop: "stop", usage: counts{prompt: 3, output: 2}}))
}

func answerStatus(w http.ResponseWriter, status int, header ...string) {
	w.Header().Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		w.Header().Set(header[i], header[i+1])
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"refused"}}`)
}

// chats are lines for a model, whose custom_ids are line-1 and so on, and what they say is that.
func chats(model string, n int) (lines, ids []string) {
	for i := 1; i <= n; i++ {
		id := fmt.Sprint("line-", i)
		lines, ids = append(lines, harness.ChatLine(id, model, id)), append(ids, id)
	}
	return lines, ids
}

const chatPath = "/v1/chat/completions"

// idsOf are the custom_ids of results.
func idsOf(results map[string]harness.Result) []string {
	var ids []string
	for id := range results {
		ids = append(ids, id)
	}
	return ids
}

// requireResults checks that each line is in the output or the error file of a batch that is over, once, and returns
// both.
func (g jobGateway) requireResults(t *testing.T, b harness.Batch, ids []string) (out,
	failed map[string]harness.Result) {
	t.Helper()
	out, failed = g.client.Results(t, b.OutputFileID), g.client.Results(t, b.ErrorFileID)
	require.ElementsMatch(t, ids, append(idsOf(out), idsOf(failed)...))
	require.Equal(t, len(ids), b.Counts.Total)
	require.Equal(t, len(out), b.Counts.Completed)
	tried := 0
	for _, r := range failed {
		if r.Response != nil || r.Error.Code != "batch_cancelled" && r.Error.Code != "batch_expired" {
			tried++
		}
	}
	require.Equal(t, tried, b.Counts.Failed)
	return out, failed
}
