package dashboard_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

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
	require.Contains(t, w.get("/batches/batch_1").body,
		`href="/requests?batch=batch_1&amp;from=2023-11-14T22%3A13&amp;range=custom"`)
	require.Equal(t, 403, w.post("/batches/batch_1/files/input").status, "no role shows what clients sent")

	p := w.post("/batches/batch_1")
	require.Equal(t, "/batches/batch_1?done=cancelling", p.location)
	page = text(w.get(p.location).body)
	require.Contains(t, page, "The batch is being cancelled.")
	require.NotContains(t, page, "Cancel the batch")
}

// A batch of which requests have failed is not green, and one that runs says what its requests meet.
func TestABatchSaysHowItIs(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	object := func(status, counts string) []byte {
		return []byte(`{"id":"batch_1","status":"` + status + `","created_at":1700000000,"in_progress_at":1700000000,
			"expires_at":` + strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10) + `,"request_counts":` + counts + `}`)
	}
	for _, c := range [][3]string{
		{"completed", `{"total":10,"completed":10,"failed":0}`, "good"},
		{"completed", `{"total":10,"completed":9,"failed":1}`, "warn"},
		{"completed", `{"total":10,"completed":0,"failed":10}`, "bad"},
		{"in_progress", `{"total":10,"completed":0,"failed":1}`, "warn"},
		{"in_progress", `{"total":10,"completed":1,"failed":0}`, ""},
	} {
		b.jobs.batches = []adminapi.TenantObject{{Object: object(c[0], c[1])}}
		for _, path := range []string{"/batches", "/batches/batch_1"} {
			require.Contains(t, w.get(path).body, `<span class="tag `+c[2]+`">`+c[0]+`</span>`, "%s %v", path, c)
		}
	}
	tried, until := time.Now().Add(-time.Minute), time.Now().Add(10*time.Minute)
	b.jobs.batches = []adminapi.TenantObject{{Object: object("in_progress", `{"total":100,"completed":60,"failed":20}`),
		Progress: &adminapi.BatchProgress{At: time.Now(), PerMinute: 0.5, Tries: 7, TriedAt: &tried, WaitsUntil: &until,
			Status: 429, ErrorCode: "rate_limit_exceeded", Message: "The limit of key_1 is reached."}}}
	b.jobs.failures = []adminapi.BatchFailure{{Status: 400, ErrorCode: "invalid_value"}, {Status: 502, ErrorCode: "x"},
		{Status: 400, ErrorCode: "invalid_value", Message: "another"}}
	for _, path := range []string{"/batches", "/batches/batch_1"} {
		says := text(w.get(path).body)
		require.Contains(t, says, "429 rate_limit_exceeded: The limit of key_1 is reached. Tried again at", path)
		require.Contains(t, says, "7 tries so far.")
	}
	p := w.get("/batches/batch_1")
	require.Contains(t, text(p.body), "0.5 requests per minute in the last minutes")
	require.Contains(t, text(p.body), "2 × 400 invalid_value")
	end := regexp.MustCompile(`Expected end</dt><dd><time datetime="([^"]+)"`).FindStringSubmatch(p.body)
	require.NotNil(t, end)
	at, err := time.Parse(time.RFC3339, end[1])
	require.NoError(t, err)
	require.WithinDuration(t, until.Add(40*time.Minute), at, 5*time.Second, "20 requests, after what makes them wait")
	require.NotContains(t, text(p.body), "after it expires")
	b.jobs.batches[0].Progress.PerMinute = 0.1
	require.Contains(t, text(w.get("/batches/batch_1").body), "after it expires")
}
