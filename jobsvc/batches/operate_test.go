package batches_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/jobsvc"
	"github.com/modelgate/modelgate/jobsvc/gateway"
)

// Operators see the failures of a batch while it runs and after its end, and can cancel it.
func TestOperatorsSeeAndCancelABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	w.asked.answer = func(ctx context.Context, a gateway.Ask, n int) (*http.Response, error) {
		switch number(a) {
		case 1:
			return respond(400, `{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"bad"}}`), nil
		case 2:
			select {
			case <-release:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return fine(ctx, a, n)
	}
	w.run(nil)
	id := w.create(requests(3))
	w.until(id, func(b wire) bool { return b.Get("request_counts.failed").Int() == 1 })
	operators := jobsvc.NewInspector(w.etcd, w.bucket)
	want := []adminapi.BatchFailure{{CustomID: "a0", Status: 400, ErrorCode: "bad", Message: "no"}}
	failures := func() []adminapi.BatchFailure {
		found, err := operators.BatchFailures(t.Context(), id, 10)
		require.NoError(t, err)
		for i := range found {
			found[i].RequestID = ""
		}
		return found
	}
	require.Equal(t, want, failures(), "while it runs")
	_, _, err := operators.BatchFile(t.Context(), id, "output")
	requireStatus(t, err, http.StatusNotFound)

	cancelled, err := operators.CancelBatch(t.Context(), id)
	require.NoError(t, err)
	require.Contains(t, string(cancelled.Object), `"cancelling"`)
	close(release)
	require.Equal(t, "cancelled", w.over(id).status())
	require.Equal(t, want, failures()[:1], "after its end")
	_, err = operators.CancelBatch(t.Context(), id)
	require.NoError(t, err, "it is cancelled, as asked")
	_, content, err := operators.BatchFile(t.Context(), id, "error")
	require.NoError(t, err)
	text, err := io.ReadAll(content)
	require.NoError(t, err)
	require.NoError(t, content.Close())
	require.Contains(t, string(text), `"custom_id":"a0"`)

	_, err = operators.Batch(t.Context(), "batch_none")
	requireStatus(t, err, http.StatusNotFound)
	_, err = jobsvc.NewInspector(w.etcd, nil).BatchFailures(t.Context(), id, 10)
	requireStatus(t, err, http.StatusServiceUnavailable)
}

func requireStatus(t *testing.T, err error, status int) {
	t.Helper()
	e, ok := errors.AsType[*openai.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, status, e.Status)
}
