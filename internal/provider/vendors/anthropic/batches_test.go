package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

const batchID = "batch_01JD3T9Q8H6R5W4Z2Y0X9V8N7M"

// A fakeBatches is the vendor's Message Batches, as https://platform.claude.com/docs/en/api/messages/batches has them.
type fakeBatches struct {
	t        *testing.T
	batches  []string // newest first
	results  map[string]func() io.Reader
	lose     bool // the answer to a creation
	created  string
	betas    string
	requests []string
}

func (f *fakeBatches) client() *provider.Client {
	c := client(f.serve)
	send := c.Send
	c.Send = func(r *http.Request) (*http.Response, error) {
		answer, err := send(r)
		if id, ok := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/messages/batches/"), "/results"); ok {
			answer.Body = io.NopCloser(f.results[id]())
		}
		if r.Method == http.MethodPost && f.lose {
			f.lose = false
			return nil, errors.New("connection reset")
		}
		return answer, err
	}
	return c
}

func (f *fakeBatches) serve(w http.ResponseWriter, r *http.Request) {
	f.requests = append(f.requests, r.Method+" "+r.URL.String())
	require.Equal(f.t, version, r.Header.Get("Anthropic-Version"))
	switch path := strings.TrimPrefix(r.URL.Path, "/messages/batches"); {
	case r.Method == http.MethodPost && path == "":
		body, err := io.ReadAll(r.Body)
		require.NoError(f.t, err)
		f.created, f.betas = string(body), r.Header.Get("Anthropic-Beta")
		count := len(gjson.GetBytes(body, "requests").Array())
		f.batches = append([]string{running(fmt.Sprintf("msgbatch_%d", len(f.batches)), count)}, f.batches...)
		_, _ = io.WriteString(w, f.batches[0])
	case path == "":
		f.list(w, r.URL.Query().Get("after_id"))
	case strings.HasSuffix(path, "/results"):
	case strings.HasSuffix(path, "/cancel"):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"invalid_request_error","message":"Batch has ended."}}`)
	default:
		for _, b := range f.batches {
			if "/"+gjson.Get(b, "id").Str == path {
				_, _ = io.WriteString(w, b)
			}
		}
	}
}

// list gives two on a page.
func (f *fakeBatches) list(w http.ResponseWriter, after string) {
	begin := 0
	for i, b := range f.batches {
		if gjson.Get(b, "id").Str == after {
			begin = i + 1
		}
	}
	end := min(begin+2, len(f.batches))
	_, _ = fmt.Fprintf(w, `{"data":[%s],"has_more":%t,"last_id":%q}`,
		strings.Join(f.batches[begin:end], ","), end < len(f.batches), gjson.Get(f.batches[end-1], "id").Str)
}

func running(id string, count int) string {
	return fmt.Sprintf(`{"id":%q,"type":"message_batch","processing_status":"in_progress","created_at":"2027-01-15T08:00:00.100435Z","ended_at":null,
		"results_url":null,"request_counts":{"processing":%d,"succeeded":0,"errored":0,"canceled":0,"expired":0}}`, id, count)
}

func ended(id string, succeeded int) string {
	return fmt.Sprintf(`{"id":%q,"type":"message_batch","processing_status":"ended","created_at":"2027-01-15T08:00:00.100435Z","ended_at":"2027-01-15T09:00:00Z",
		"results_url":"https://api.anthropic.com/v1/messages/batches/x/results","request_counts":{"processing":0,"succeeded":%d,"errored":1,"canceled":0,"expired":0}}`, id, succeeded)
}

func batchOf(requests ...string) provider.Batch {
	facts := &configv1.ModelFacts{Capabilities: &configv1.Capabilities{MaxOutputTokens: new(int64(1000))}}
	return provider.Batch{
		ID: batchID, Since: 1_800_000_000, Endpoint: "/v1/chat/completions", Count: len(requests),
		Target: provider.Target{Config: &configv1.Provider{Name: "claude"}, Model: "claude-haiku-4-5", Facts: facts},
		Each: func(_ context.Context, take func(int, []byte) error) error {
			for i, r := range requests {
				if err := take(i, []byte(r)); err != nil {
					return err
				}
			}
			return nil
		},
		Request: func(_ context.Context, line int) ([]byte, error) { return []byte(requests[line]), nil },
	}
}

const (
	ask     = `{"model":"fast","messages":[{"role":"user","content":"Hello"}]}`
	withTwo = `{"model":"fast","n":2,"messages":[{"role":"user","content":"Hello"}]}`
	asTool  = `{"model":"fast","messages":[{"role":"user","content":"Hello"}],"tools":[{"type":"function","function":{"name":"get.weather","parameters":{"type":"object"}}}]}`
)

func lines(lines ...string) func() io.Reader {
	return func() io.Reader { return strings.NewReader(strings.Join(lines, "\n") + "\n") }
}

func result(line int, result string) string {
	return fmt.Sprintf(`{"custom_id":"%s-%d","result":%s}`, batchID, line, result)
}

func TestABatchIsOneRequestOfMessagesBodies(t *testing.T) {
	f := &fakeBatches{t: t}
	beta := `{"model":"fast","anthropic_beta":["b-2025","a-2025"],"messages":[{"role":"user","content":"Hello"}]}`
	id, err := Provider().Batches.Submit(t.Context(), f.client(), batchOf(ask, withTwo, beta))
	require.NoError(t, err)
	require.Equal(t, "msgbatch_0", id)
	require.True(t, json.Valid([]byte(f.created)), f.created)
	requests := gjson.Get(f.created, "requests").Array()
	require.Len(t, requests, 2, "what the vendor cannot be asked is left out")
	require.Equal(t, batchID+"-0", requests[0].Get("custom_id").Str)
	require.Equal(t, batchID+"-2", requests[1].Get("custom_id").Str)
	require.Equal(t, "claude-haiku-4-5", requests[0].Get("params.model").Str)
	require.Equal(t, int64(1000), requests[0].Get("params.max_tokens").Int())
	require.False(t, requests[0].Get("params.stream").Exists())
	require.Equal(t, "a-2025,b-2025", f.betas)
	require.False(t, requests[1].Get("params.anthropic_beta").Exists())
}

func TestABatchWhoseCreationWasNotHeardIsFoundOnceItHasEnded(t *testing.T) {
	f := &fakeBatches{t: t, lose: true}
	b := batchOf(ask, ask)
	_, err := Provider().Batches.Submit(t.Context(), f.client(), b)
	require.ErrorContains(t, err, "connection reset")
	b.Again = true

	// While it runs it could be another's: it is neither taken nor submitted a second time.
	_, err = Provider().Batches.Submit(t.Context(), f.client(), b)
	require.ErrorIs(t, err, errUnsure)
	var refused *openai.Error
	require.NotErrorAs(t, err, &refused)

	f.batches = []string{running("msgbatch_other", 5), ended("msgbatch_alike", 1), ended("msgbatch_0", 1)}
	f.results = map[string]func() io.Reader{
		"msgbatch_alike": lines(`{"custom_id":"request-1","result":{"type":"expired"}}`),
		"msgbatch_0":     lines(result(1, `{"type":"canceled"}`), result(0, `{"type":"canceled"}`)),
	}
	id, err := Provider().Batches.Submit(t.Context(), f.client(), b)
	require.NoError(t, err)
	require.Equal(t, "msgbatch_0", id)
}

func TestABatchThatTheVendorHasNotGotIsSubmittedAgain(t *testing.T) {
	f := &fakeBatches{t: t, batches: []string{
		ended("msgbatch_alike", 1), running("msgbatch_small", 1), strings.ReplaceAll(running("msgbatch_old", 2), "2027-",
			"2026-"),
		strings.ReplaceAll(running("msgbatch_older", 2), "2027-", "2026-"), running("msgbatch_unseen", 2),
	},
		results: map[string]func() io.Reader{
			"msgbatch_alike": lines(`{"custom_id":"batch_01JD3T9Q8H6R5W4Z2Y0X9V8N7N-0","result":{"type":"expired"}}`)}}
	b := batchOf(ask, ask)
	b.Again = true
	id, err := Provider().Batches.Submit(t.Context(), f.client(), b)
	require.NoError(t, err)
	require.Equal(t, "msgbatch_5", id)
}

func TestResultsAreReadWithWhatEachRequestAsked(t *testing.T) {
	f := &fakeBatches{t: t}
	_, err := Provider().Batches.Submit(t.Context(), f.client(), batchOf(asTool))
	require.NoError(t, err)
	renamed := gjson.Get(f.created, "requests.0.params.tools.0.name").Str
	require.NotEqual(t, "get.weather", renamed)

	message := func(content string) string {
		return `{"type":"succeeded","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-haiku-4-5","content":[` + content +
			`],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":5}}}`
	}
	f = &fakeBatches{t: t, batches: []string{ended("v", 3)}, results: map[string]func() io.Reader{"v": lines(
		result(2, message(`{"type":"tool_use","id":"toolu_1","name":"`+renamed+`","input":{}}`)),
		result(0, message(`{"type":"text","text":"Hi"}`)),
		result(0, message(`{"type":"text","text":"twice"}`)),
		result(3,
			`{"type":"errored","error":{"type":"error","request_id":"req_9","error":{"type":"overloaded_error","message":"Overloaded"}}}`),
		result(4, `{"type":"expired"}`), result(5, `{"type":"canceled"}`),
		`{"custom_id":"other","result":{"type":"expired"}}`,
		result(6, `{"type":"succeeded","message":{"type":"surprise"}}`),
		result(7,
			`{"type":"errored","error":{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: too large"}}}`),
	)}}
	b := batchOf(ask, withTwo, asTool, ask, ask, ask, ask, ask, ask)
	report, err := Provider().Batches.Poll(t.Context(), f.client(), "v")
	require.NoError(t, err)
	require.Equal(t, provider.BatchReport{Over: true, Completed: 3, Failed: 1}, report)
	got := map[int]provider.BatchAnswer{}
	require.NoError(t, Provider().Batches.Results(t.Context(), f.client(), "v", b, func(a provider.BatchAnswer) error {
		require.NotContains(t, got, a.Line)
		got[a.Line] = a
		return nil
	}))
	require.Len(t, got, 9)
	require.Equal(t, http.StatusOK, got[0].Status)
	require.Equal(t, "Hi", gjson.GetBytes(got[0].Body, "choices.0.message.content").Str)
	require.Equal(t, "fast", gjson.GetBytes(got[0].Body, "model").Str)
	require.Equal(t, int64(1800003600), gjson.GetBytes(got[0].Body, "created").Int())
	require.Equal(t, int64(15), got[0].Usage.TotalTokens)
	require.Equal(t, http.StatusBadRequest, got[1].Status)
	require.Equal(t, "n", gjson.GetBytes(got[1].Body, "error.param").Str)
	require.Equal(t, "get.weather", gjson.GetBytes(got[2].Body, "choices.0.message.tool_calls.0.function.name").Str,
		"names are the client's again")
	require.Equal(t, http.StatusServiceUnavailable, got[3].Status)
	require.Equal(t, "req_9", got[3].RequestID)
	require.Equal(t, provider.BatchAnswer{Line: 4}, got[4])
	require.Equal(t, provider.BatchAnswer{Line: 5}, got[5])
	require.Equal(t, http.StatusBadGateway, got[6].Status)
	require.Equal(t, http.StatusBadRequest, got[7].Status)
	require.Equal(t, provider.BatchAnswer{Line: 8}, got[8])
}

func TestResultsThatAreCutFail(t *testing.T) {
	f := &fakeBatches{t: t, batches: []string{ended("v", 1)}, results: map[string]func() io.Reader{
		"v": func() io.Reader { return strings.NewReader(result(0, `{"type":"succeeded","message":{"type":"mess`)) },
	}}
	var got []provider.BatchAnswer
	take := func(a provider.BatchAnswer) error {
		got = append(got, a)
		return nil
	}
	require.ErrorIs(t, Provider().Batches.Results(t.Context(), f.client(), "v", batchOf(ask), take),
		provider.ErrNotAnAnswer)
	require.Empty(t, got)
	f.batches = []string{running("v", 1)}
	require.NoError(t, Provider().Batches.Results(t.Context(), f.client(), "v", batchOf(ask), take))
	require.Equal(t, []provider.BatchAnswer{{Line: 0}}, got, "a batch that is not over has no answers")
}

func TestCancellingABatchThatHasEndedIsNothing(t *testing.T) {
	f := &fakeBatches{t: t, batches: []string{ended("v", 1), running("w", 1)}}
	require.NoError(t, Provider().Batches.Cancel(t.Context(), f.client(), "v"))
	require.ErrorContains(t, Provider().Batches.Cancel(t.Context(), f.client(), "w"), "Batch has ended.")
}

func TestABatchOfNothingThatTheVendorCanBeAskedNeedsNoVendor(t *testing.T) {
	f := &fakeBatches{t: t}
	id, err := Provider().Batches.Submit(t.Context(), f.client(), batchOf(withTwo))
	require.NoError(t, err)
	report, err := Provider().Batches.Poll(t.Context(), f.client(), id)
	require.NoError(t, err)
	require.True(t, report.Over)
	require.NoError(t, Provider().Batches.Cancel(t.Context(), f.client(), id))
	given := 0
	require.NoError(t, Provider().Batches.Results(t.Context(), f.client(), id, batchOf(withTwo),
		func(a provider.BatchAnswer) error {
			given++
			require.Equal(t, http.StatusBadRequest, a.Status)
			return nil
		}))
	require.Equal(t, 1, given)
	require.Empty(t, f.requests)
}

func TestBatchesThatTheVendorDoesNotTakeAreRefusedClearly(t *testing.T) {
	f := &fakeBatches{t: t}
	var refused *openai.Error
	for _, endpoint := range []string{"/v1/embeddings", "/v1/completions", "/v1/responses"} {
		b := batchOf(ask)
		b.Endpoint = endpoint
		_, err := Provider().Batches.Submit(t.Context(), f.client(), b)
		require.ErrorAs(t, err, &refused)
		require.EqualValues(t, "unsupported_endpoint", refused.Code)
	}
	b := batchOf()
	large := []byte(strings.Replace(ask, "Hello", strings.Repeat("x", 8<<20), 1))
	b.Each = func(_ context.Context, take func(int, []byte) error) error {
		for i := range 31 {
			if err := take(i, large); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := Provider().Batches.Submit(t.Context(), f.client(), b)
	require.ErrorAs(t, err, &refused)
	require.EqualValues(t, "batch_too_large", refused.Code)
	require.Empty(t, f.requests)
}
