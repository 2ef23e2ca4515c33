package vendorbatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

func TestABatchIsSubmittedAsAFileOfItsLines(t *testing.T) {
	f := &fakeBatches{t: t}
	id, err := testBatches().Submit(t.Context(), f.client(),
		batchOf(ask, broken, "{\"model\":\"team/x\",\n\"messages\":[{\"role\":\"user\",\"content\":\"a\\nb\"}]}"))
	require.NoError(t, err)
	require.Equal(t, "batch_v0", id)
	require.Equal(t, []string{
		`{"custom_id":"` + batchID +
			`-1","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-x","messages":[{"role":"user","content":"Hello"}]}}`,
		`{"custom_id":"` + batchID +
			`-5","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-x", "messages":[{"role":"user","content":"a\nb"}]}}`,
	}, f.lines)
	require.Equal(t, url.Values{"purpose": {"batch"}, "expires_after[anchor]": {"created_at"},
		"expires_after[seconds]": {"1209600"}}, f.forms[0])
	created := f.batches[0]
	require.Equal(t, "file-in", created["input_file_id"])
	require.Equal(t, "/v1/chat/completions", created["endpoint"])
	require.Equal(t, "24h", created["completion_window"])
	require.Equal(t, map[string]any{"modelgate_batch": batchID}, created["metadata"])
	require.Equal(t, map[string]any{"anchor": "created_at", "seconds": 1209600.0}, created["output_expires_after"])
}

func TestABatchWhoseCreationWasNotHeardIsFoundAgain(t *testing.T) {
	f := &fakeBatches{t: t, lose: 1}
	b := batchOf(ask)
	_, err := testBatches().Submit(t.Context(), f.client(), b)
	require.ErrorContains(t, err, "connection reset")
	require.Len(t, f.batches, 1)
	for i := range 4 { // others' batches came after it
		f.batches = append([]map[string]any{{"id": fmt.Sprintf("o%d", i), "status": "in_progress",
			"created_at": 1_800_000_001, "metadata": nil}}, f.batches...)
	}
	b.Again = true
	id, err := testBatches().Submit(t.Context(), f.client(), b)
	require.NoError(t, err)
	require.Equal(t, "batch_v0", id)
	require.Len(t, f.forms, 1, "nothing is uploaded twice")
}

func TestTheSearchEndsWhereAllIsOlderAndPassesOverWhatTheVendorRefused(t *testing.T) {
	old := map[string]any{"status": "completed", "created_at": 1_800_000_000 - slack - 1,
		"metadata": map[string]any{metadata: "batch_other"}}
	f := &fakeBatches{t: t}
	for i := range 9 {
		b := map[string]any{"id": fmt.Sprintf("old%d", i)}
		for k, v := range old {
			b[k] = v
		}
		f.batches = append(f.batches, b)
	}
	f.batches[0]["status"], f.batches[0]["created_at"], f.batches[0]["metadata"] = "failed", 1_800_000_001,
		map[string]any{metadata: batchID}
	b := batchOf(ask)
	b.Again = true
	id, err := testBatches().Submit(t.Context(), f.client(), b)
	require.NoError(t, err)
	require.Equal(t, "batch_v9", id)
	looked := 0
	for _, r := range f.requests {
		if strings.HasPrefix(r, "GET /batches?") {
			looked++
		}
	}
	require.Equal(t, 2, looked)
}

func TestAFileThatIsNotProcessedIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBatches{t: t, status: []string{"pending", "Running", "processed"}}
		_, err := testBatches().Submit(t.Context(), f.client(), batchOf(ask))
		require.NoError(t, err)
		require.Len(t, f.batches, 1)

		f = &fakeBatches{t: t, status: []string{"pending", "error"}}
		_, err = testBatches().Submit(t.Context(), f.client(), batchOf(ask))
		var refused *openai.Error
		require.ErrorAs(t, err, &refused)
		require.Empty(t, f.batches)

		f = &fakeBatches{t: t}
		for range 1000 {
			f.status = append(f.status, "pending")
		}
		_, err = testBatches().Submit(t.Context(), f.client(), batchOf(ask))
		require.ErrorContains(t, err, "still pending")
		require.NotErrorAs(t, err, &refused)
	})
}

func TestABatchThatCannotBeSubmittedIsRefusedClearly(t *testing.T) {
	f := &fakeBatches{t: t}
	var refused *openai.Error
	b := batchOf(ask)
	b.Endpoint = "/v1/moderations"
	_, err := testBatches().Submit(t.Context(), f.client(), b)
	require.ErrorAs(t, err, &refused)
	require.EqualValues(t, "unsupported_endpoint", refused.Code)

	for _, small := range []*OpenAI{{MaxLines: 1, MaxBytes: 1000}, {MaxLines: 2, MaxBytes: 200}} {
		small.Codecs = testBatches().Codecs
		_, err = small.Submit(t.Context(), f.client(), batchOf(ask, ask))
		require.ErrorAs(t, err, &refused)
		require.EqualValues(t, "batch_too_large", refused.Code)
	}
	require.Empty(t, f.forms)
}

func TestALineThatCannotBeReadIsTheErrorOfTheUpload(t *testing.T) {
	f := &fakeBatches{t: t}
	b := batchOf(ask, ask)
	each, passes := b.Each, 0
	lost := errors.New("the blob is gone")
	b.Each = func(ctx context.Context, take func(int, []byte) error) error {
		if passes++; passes == 1 {
			return each(ctx, take)
		}
		return errors.Join(take(1, []byte(ask)), lost)
	}
	_, err := testBatches().Submit(t.Context(), f.client(), b)
	require.ErrorIs(t, err, lost)
	require.Empty(t, f.batches)
}

func TestABatchOfNothingThatTheVendorCanBeAskedNeedsNoVendor(t *testing.T) {
	f := &fakeBatches{t: t}
	b := batchOf(broken, `{"model":"team/x","stream":true,"messages":[{"role":"user","content":"Hello"}]}`)
	id, err := testBatches().Submit(t.Context(), f.client(), b)
	require.NoError(t, err)
	report, err := testBatches().Poll(t.Context(), f.client(), id)
	require.NoError(t, err)
	require.True(t, report.Over)
	require.NoError(t, testBatches().Cancel(t.Context(), f.client(), id))
	got, err := collect(t, testBatches(), f.client(), id, b)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, http.StatusBadRequest, got[1].Status)
	require.Equal(t, "messages", gjson.GetBytes(got[1].Body, "error.param").Str)
	require.Equal(t, "stream", gjson.GetBytes(got[3].Body, "error.param").Str)
	require.Empty(t, f.requests)
}

func TestResultsGiveEachLineOnceWhateverTheOrder(t *testing.T) {
	of := func(n int) string { return fmt.Sprintf("%s-%d", batchID, n) }
	f := &fakeBatches{t: t, batches: []map[string]any{{
		"id": "v", "status": "expired", "output_file_id": "out", "error_file_id": "err",
		"request_counts": map[string]any{"total": 6, "completed": 2, "failed": 3},
	}}, files: map[string]func() io.Reader{
		"out": text(answerLine(of(5), "five") + answerLine(of(1), "one") + answerLine(of(1), "again") +
			answerLine(of(3), "refused by us") +
			answerLine("batch_other-1", "x") + answerLine(of(99), "x") + answerLine("", "x") + answerLine(batchID+"-x", "x") +
			"\r\n\n"),
		"err": text(`{"custom_id":"` + of(7) +
			`","response":{"status_code":429,"request_id":"r7","body":{"error":{"message":"Slow down.","type":"requests","code":"rate_limit_exceeded"}}},"error":null}
{"custom_id":"` + of(9) + `","response":null,"error":{"code":"batch_expired","message":"This request could not be executed before the completion window expired."}}
{"custom_id":"` + of(11) + `","response":null,"error":{"code":"server_error","message":"It broke."}}
{"custom_id":"` + of(13) + `","response":{"status_code":200,"request_id":"r13","body":{"surprise":true}},"error":null}
{"custom_id":"` + of(15) + `","response":{"status_code":400,"request_id":"r15","body":null},"error":{"code":"content_filter","message":"Filtered."}}`),
	}}
	b := batchOf(ask, broken, ask, ask, ask, ask, ask, ask, ask)
	report, err := testBatches().Poll(t.Context(), f.client(), "v")
	require.NoError(t, err)
	require.Equal(t, provider.BatchReport{Over: true, Completed: 2, Failed: 3}, report)
	got, err := collect(t, testBatches(), f.client(), "v", b)
	require.NoError(t, err)
	require.Len(t, got, 9)
	require.Equal(t, http.StatusOK, got[1].Status)
	require.Equal(t, "req_one", got[1].RequestID)
	require.Equal(t, "one", gjson.GetBytes(got[1].Body, "choices.0.message.content").Str)
	require.Equal(t, "team/x", gjson.GetBytes(got[1].Body, "model").Str)
	require.Equal(t, int64(7), got[1].Usage.TotalTokens)
	require.Equal(t, "five", gjson.GetBytes(got[5].Body, "choices.0.message.content").Str)
	require.Equal(t, http.StatusBadRequest, got[3].Status)
	require.Equal(t, http.StatusTooManyRequests, got[7].Status)
	require.Equal(t, "rate_limit_exceeded", gjson.GetBytes(got[7].Body, "error.code").Str)
	require.Equal(t, provider.BatchAnswer{Line: 9}, got[9])
	require.Equal(t, http.StatusInternalServerError, got[11].Status)
	require.Equal(t, http.StatusBadGateway, got[13].Status)
	require.Equal(t, http.StatusBadRequest, got[15].Status)
	require.Equal(t, "content_filter", gjson.GetBytes(got[15].Body, "error.code").Str)
	require.Equal(t, provider.BatchAnswer{Line: 17}, got[17], "a line that the vendor says nothing of was not run")
}

func TestResultsThatAreCutFailAndComeWholeTheNextTime(t *testing.T) {
	whole := answerLine(batchID+"-1", "one") + answerLine(batchID+"-3", "three")
	cuts := 0
	f := &fakeBatches{t: t, batches: []map[string]any{{"id": "v", "status": "completed", "output_file_id": "out"}}}
	f.files = map[string]func() io.Reader{"out": func() io.Reader {
		switch cuts++; cuts {
		case 1:
			return io.MultiReader(strings.NewReader(whole[:len(whole)-40]), failing{})
		case 2: // as it is with an end that is none
			return strings.NewReader(whole[:len(whole)-40])
		}
		return strings.NewReader(whole)
	}}
	for range 2 {
		got, err := collect(t, testBatches(), f.client(), "v", batchOf(ask, ask))
		require.Error(t, err)
		require.Len(t, got, 1)
	}
	got, err := collect(t, testBatches(), f.client(), "v", batchOf(ask, ask))
	require.NoError(t, err)
	require.Len(t, got, 2)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestResultsEndWithTheErrorOfWhoTakesThem(t *testing.T) {
	f := &fakeBatches{t: t, batches: []map[string]any{{"id": "v", "status": "completed", "output_file_id": "out"}},
		files: map[string]func() io.Reader{"out": text(answerLine(batchID+"-1", "one"))}}
	full := errors.New("disk full")
	require.ErrorIs(t, testBatches().Results(t.Context(), f.client(), "v", batchOf(ask),
		func(provider.BatchAnswer) error { return full }), full)
}

func TestABatchThatIsNotOverHasNoAnswers(t *testing.T) {
	f := &fakeBatches{t: t, batches: []map[string]any{{"id": "v", "status": "cancelling", "output_file_id": nil,
		"error_file_id": nil}}}
	got, err := collect(t, testBatches(), f.client(), "v", batchOf(ask))
	require.NoError(t, err)
	require.Equal(t, map[int]provider.BatchAnswer{1: {Line: 1}}, got)
}

func TestABatchThatTheVendorRefusesSaysWhy(t *testing.T) {
	f := &fakeBatches{t: t, batches: []map[string]any{{"id": "v", "status": "Failed",
		"errors": map[string]any{"object": "list", "data": []any{
			map[string]any{"code": "token_limit_exceeded", "message": "Enqueued token limit reached.", "line": nil},
		}}}}}
	report, err := testBatches().Poll(t.Context(), f.client(), "v")
	require.NoError(t, err)
	require.True(t, report.Over)
	require.Equal(t, "token_limit_exceeded", string(report.Error.Code))
	require.Equal(t, http.StatusTooManyRequests, report.Error.Status)
	require.Equal(t, "Enqueued token limit reached.", report.Error.Message)
	got, err := collect(t, testBatches(), f.client(), "v", batchOf(ask))
	require.NoError(t, err)
	require.Equal(t, provider.BatchAnswer{Line: 1}, got[1])
	_, err = testBatches().Poll(t.Context(), f.client(), "unknown")
	var refused *openai.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusNotFound, refused.Status)
}

func TestCancellingABatchThatIsOverIsNothing(t *testing.T) {
	f := &fakeBatches{t: t, batches: []map[string]any{{"id": "v", "status": "in_progress"}}}
	require.NoError(t, testBatches().Cancel(t.Context(), f.client(), "v"))
	require.Equal(t, "cancelling", f.batches[0]["status"])
	f.batches[0]["status"] = "completed"
	require.NoError(t, testBatches().Cancel(t.Context(), f.client(), "v"))
	require.Error(t, testBatches().Cancel(t.Context(), f.client(), "unknown"))
}

func TestTimesAndStatesAreReadAsAzureWritesThem(t *testing.T) {
	var b vendorBatch
	require.NoError(t,
		json.Unmarshal([]byte(`{"id":"batch_fe3f","status":"Completed","created_at":"2024-07-19T17:13:57.2491382+00:00",
		"metadata":null,"output_file_id":null,"errors":null,"request_counts":{"total":null,"completed":null,"failed":null}}`), &b))
	require.True(t, b.over())
	require.Equal(t, int64(1721409237), b.created())
	require.Empty(t, b.gateway())
}

func TestOverlongLinesAreCutAndDoNotStopTheOthers(t *testing.T) {
	long := io.MultiReader(strings.NewReader(`{"custom_id":"long","response":"`), io.LimitReader(endless{}, maxLine),
		strings.NewReader("\"}\nshort\n"))
	var got []string
	require.NoError(t, ReadLines(long, func(line []byte, whole bool) error {
		if !whole {
			a := TooLong(line)
			require.Equal(t, http.StatusBadGateway, a.Error.Status)
			line = []byte("cut " + a.CustomID)
		}
		got = append(got, strings.TrimSpace(string(line)))
		return nil
	}))
	require.Equal(t, []string{"cut long", "short"}, got)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestResultsTakeNoMemoryForAllLines(t *testing.T) {
	const count = 10_000
	content := strings.Repeat("x", 8<<10)
	requests := make([]string, count)
	for i := range requests {
		requests[i] = ask
	}
	f := &fakeBatches{t: t, batches: []map[string]any{{"id": "v", "status": "completed", "output_file_id": "out"}}}
	f.files = map[string]func() io.Reader{"out": func() io.Reader {
		r, w := io.Pipe()
		go func() {
			for i := range count {
				if _, err := io.WriteString(w, answerLine(fmt.Sprintf("%s-%d", batchID, 2*i+1), content)); err != nil {
					return
				}
			}
			_ = w.Close()
		}()
		return r
	}}
	var peak uint64
	taken := 0
	require.NoError(t, testBatches().Results(t.Context(), f.client(), "v", batchOf(requests...),
		func(a provider.BatchAnswer) error {
			require.Equal(t, http.StatusOK, a.Status)
			if taken++; taken%2000 == 0 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
			return nil
		}))
	require.Equal(t, count, taken)
	require.Less(t, peak, uint64(48<<20), "85 MB of answers passed")
}
