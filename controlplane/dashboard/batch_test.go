package dashboard_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

func TestThePageOfABatch(t *testing.T) {
	b := newBench(t)
	b.jobs.batches = []adminapi.TenantObject{{Organization: "acme", Key: "key_1", Object: []byte(`{"id":"batch_1",
		"status":"in_progress","endpoint":"/v1/chat/completions","created_at":1700000000,"in_progress_at":1700000000,
		"expires_at":1700086400,"request_counts":{"total":100,"completed":38,"failed":2},
		"usage":{"input_tokens":1234,"output_tokens":56}}`)}}
	b.jobs.failures = []adminapi.BatchFailure{{CustomID: "line-7", Status: 400, ErrorCode: "invalid_value",
		Message: "Not a model.", RequestID: "req-1"}}
	w := b.owner(t)
	page := strings.Join(strings.Fields(text(w.get("/batches/batch_1").body)), " ")
	for _, says := range []string{"40 of 100 requests", "1,234 input, 56 output", "requests per minute", "line-7",
		"Not a model.", "Cancel the batch", "acme deleted", "key_1 deleted", "Only accounts that may see kept bodies"} {
		require.Contains(t, page, says)
	}
	require.NotContains(t, w.get("/batches/batch_1").body, `href="/keys/key_1"`, "it is not there")
	require.Equal(t, 403, w.post("/batches/batch_1/files/input").status, "no role shows what clients sent")

	p := w.post("/batches/batch_1")
	require.Equal(t, "/batches/batch_1?done=cancelling", p.location)
	page = text(w.get(p.location).body)
	require.Contains(t, page, "The batch is being cancelled.")
	require.NotContains(t, page, "Cancel the batch")
}
