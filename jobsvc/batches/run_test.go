package batches_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/store"
)

func TestEachLineIsAskedAndItsAnswerIsInTheOutput(t *testing.T) {
	w := newWorld(t)
	w.run(nil)
	id := w.create(requests(100))
	b := w.over(id)

	require.Equal(t, "completed", b.status())
	require.JSONEq(t, `{"total":100,"completed":100,"failed":0}`, b.Get("request_counts").Raw)
	require.JSONEq(t, `{"input_tokens":300,"input_tokens_details":{"cached_tokens":100},"output_tokens":400,
		"output_tokens_details":{"reasoning_tokens":200},"total_tokens":700}`, b.Get("usage").Raw)
	require.Equal(t, "m", b.Get("model").String())
	require.Nil(t, w.file(b, "error_file_id"))
	output := w.file(b, "output_file_id")
	require.Len(t, output, 100)
	for i := range 100 {
		line := output[fmt.Sprintf("a%d", i)]
		require.Equal(t, fmt.Sprint(i), line.Get("response.body.choices.0.message.content").String())
		require.EqualValues(t, 200, line.Get("response.status_code").Int())
		require.Equal(t, "req_1", line.Get("response.request_id").String())
		require.Equal(t, "null", line.Get("error").Raw)
	}
	for _, stamp := range []string{"in_progress_at", "finalizing_at", "completed_at"} {
		require.NotZero(t, b.Get(stamp).Int(), stamp)
	}
	total, twice := w.asked.total()
	require.Equal(t, 100, total)
	require.Zero(t, twice)
	require.Zero(t, w.segments(), "segments are removed at the end")
	require.Equal(t, []string{"announced/batch.completed/" + id}, w.announced())
	record, err := files.Kind.Get(t.Context(), w.store, tenant, b.Get("output_file_id").String())
	require.NoError(t, err)
	require.Equal(t, id+"_output.jsonl", record.Value.Filename)
	require.Equal(t, int64(30*24*3600), record.Value.ExpiresAt-record.Value.CreatedAt)
}

func TestFailuresOfLinesAreTheirsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limits.Line = 200 * time.Millisecond
	w.asked.answer = func(ctx context.Context, a gateway.Ask, n int) (*http.Response, error) {
		switch number(a) {
		case 1:
			return respond(400, `{"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}}`), nil
		case 2:
			return respond(500, `{"error":{"message":"ouch"}}`), nil
		case 3:
			return nil, errReset
		case 4:
			return respond(200, `{"choices":[`), nil // broken off, but for HTTP
		case 5:
			return respond(503, "no healthy upstream"), nil
		case 6:
			return respond(200, "{\n  \"choices\": [],\r\n  \"usage\": {\"prompt_tokens\": 5, \"total_tokens\": 5}\n}\n"), nil
		case 7:
			<-ctx.Done()
			return nil, ctx.Err()
		case 8:
			return respond(429, `{"error":{"message":"quota"}}`, "X-Should-Retry", "false"), nil
		case 9:
			if n < 5 {
				return nil, errReset
			}
			if n < 12 {
				return respond(429, `{"error":{"message":"slowly"}}`, "Retry-After-Ms", "1"), nil
			}
		case 10:
			if n < 5 {
				return nil, errReset
			}
		case 11:
			return respond(301, ""), nil
		}
		return fine(ctx, a, n)
	}
	w.run(nil)
	id := w.create(requests(12))
	b := w.over(id)

	require.Equal(t, "completed", b.status())
	require.JSONEq(t, `{"total":12,"completed":4,"failed":8}`, b.Get("request_counts").Raw)
	require.EqualValues(t, 3*7+5, b.Get("usage.total_tokens").Int())
	output, failed := w.file(b, "output_file_id"), w.file(b, "error_file_id")
	require.Len(t, output, 4)
	require.JSONEq(t, `{"choices":[],"usage":{"prompt_tokens":5,"total_tokens":5}}`,
		output["a5"].Get("response.body").Raw)
	require.Len(t, failed, 8)
	require.Equal(t, "no", failed["a0"].Get("response.body.error.message").String())
	require.EqualValues(t, 400, failed["a0"].Get("response.status_code").Int())
	require.Equal(t, "null", failed["a0"].Get("error").Raw)
	require.EqualValues(t, 500, failed["a1"].Get("response.status_code").Int())
	for at, code := range map[string]string{"a2": "connection_error", "a3": "invalid_response", "a6": "request_timeout"} {
		require.Equal(t, code, failed[at].Get("error.code").String())
		require.NotEmpty(t, failed[at].Get("error.message").String())
		require.Equal(t, "null", failed[at].Get("response").Raw)
	}
	require.Equal(t, "no healthy upstream", failed["a4"].Get("response.body.error.message").String())
	require.EqualValues(t, 429, failed["a7"].Get("response.status_code").Int())
	require.EqualValues(t, 301, failed["a10"].Get("response.status_code").Int())

	times := func(line int) int { return w.asked.times[fmt.Sprintf("%s/%d", id, line)] }
	require.Equal(t, 1, times(1), "a client's error is final")
	require.Equal(t, 5, times(2))
	require.Equal(t, 5, times(3))
	require.Equal(t, 1, times(4))
	require.Equal(t, 1, times(8), "so is a quota that is used up")
	require.Equal(t, 12, times(9), "who says when to come again is not given up")
	require.Equal(t, 5, times(10))
}

func TestABatchWhoseLinesAllFailIsCompletedWithoutOutput(t *testing.T) {
	w := newWorld(t)
	w.asked.answer = func(context.Context, gateway.Ask, int) (*http.Response, error) {
		return respond(400, `{"error":{"message":"no"}}`), nil
	}
	w.run(nil)
	b := w.over(w.create(requests(3)))
	require.Equal(t, "completed", b.status())
	require.Equal(t, "null", b.Get("output_file_id").Raw)
	require.Equal(t, "null", b.Get("usage").Raw)
	require.Len(t, w.file(b, "error_file_id"), 3)
	require.JSONEq(t, `{"total":3,"completed":0,"failed":3}`, b.Get("request_counts").Raw)
}

func TestLinesOfOneBatchMayNameSeveralModels(t *testing.T) {
	w := newWorld(t)
	w.run(nil)
	text := requests(10) + strings.ReplaceAll(strings.ReplaceAll(requests(10), `"a`, `"b`), `"m"`, `"other"`)
	b := w.over(w.create(text))
	require.Equal(t, "completed", b.status())
	require.Equal(t, "null", b.Get("model").Raw)
	require.Len(t, w.file(b, "output_file_id"), 20)
	require.Equal(t, map[string]bool{"key-1": true}, w.asked.keys)
}

func TestOutputExpiresWhenTheBatchSays(t *testing.T) {
	w := newWorld(t)
	w.run(nil)
	answer := w.call("POST", "/v1/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h",
		"output_expires_after":{"anchor":"created_at","seconds":7200}}`, w.input(requests(1)), chat))
	require.Equal(t, http.StatusOK, answer.Code)
	id := wireOf(answer).Get("id").String()
	b := w.over(id)
	record, err := files.Kind.Get(t.Context(), w.store, tenant, b.Get("output_file_id").String())
	require.NoError(t, err)
	require.Equal(t, int64(7200), record.Value.ExpiresAt-record.Value.CreatedAt)
}

func TestAnInputMayNotBeDeletedWhileItsBatchRuns(t *testing.T) {
	w := newWorld(t)
	id := w.create(requests(1))
	file := w.get(id).Get("input_file_id").String()
	unused := func() error {
		txn := w.store.Begin()
		txn.Unused(file)
		return txn.Commit(t.Context())
	}
	require.ErrorIs(t, unused(), store.ErrConflict)
	w.run(nil)
	w.over(id)
	require.NoError(t, unused())
}
