package hostile

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// TestPoint1AKeyCannotFillTheStore has a key with a request a minute and a budget of a cent create what it can:
// batches with large metadata and a fresh Idempotency-Key each, and files.
func TestPoint1AKeyCannotFillTheStore(t *testing.T) {
	t.Parallel()
	g := harness.Run(t, t.TempDir())
	g.Apply(t,
		&configv1.Organization{Name: "greedy", Quotas: &configv1.Quotas{KeptBatches: 20, WritesPerMinute: 1_000_000}},
		&configv1.Project{Name: "greedy/files", Quotas: &configv1.Quotas{FileBytes: 1 << 20, WritesPerMinute: 1_000_000}},
		&configv1.Project{Name: "greedy/batches", Quotas: &configv1.Quotas{WritesPerMinute: 1_000_000}})
	_, batchesKey := g.CreateKey(t, "greedy", "batches")
	_, filesKey := g.CreateKey(t, "greedy", "files")
	greedy := g.As(batchesKey)
	file := greedy.Upload(t, "batch",
		`{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":"echo/echo","messages":[{"role":"user","content":"x"}]}}`+"\n")
	metadata := make([]string, 16)
	for i := range metadata {
		metadata[i] = fmt.Sprintf("%q:%q", fmt.Sprintf("key-%d", i), strings.Repeat("m", 512))
	}
	body := fmt.Sprintf(
		`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{%s}}`, file,
		strings.Join(metadata, ","))

	const tries, workers = 200, 8
	var made, refused atomic.Int64
	var wait sync.WaitGroup
	began := time.Now()
	for n := range workers {
		wait.Go(func() {
			for i := range tries / workers {
				a := greedy.Do(t, http.MethodPost, "/v1/batches", body, "Content-Type", "application/json", "Idempotency-Key",
					fmt.Sprintf("%d-%d", n, i))
				switch {
				case a.Status == http.StatusOK:
					made.Add(1)
				case a.Status == http.StatusTooManyRequests &&
					strings.Contains(string(a.Body), "'kept_batches' of the organization 'greedy'"):
					refused.Add(1)
				default:
					t.Errorf("%d %s", a.Status, a.Body)
					return
				}
			}
		})
	}
	wait.Wait()
	require.EqualValues(t, 20, made.Load(), "exactly the quota")
	require.EqualValues(t, tries-20, refused.Load())
	figure(t, "200 batches by 8 at once under a quota of 20", "%d made, %d refused, %s", made.Load(), refused.Load(),
		time.Since(began).Round(time.Millisecond))

	hoarder, kept := g.As(filesKey), 0
	for range 8 {
		form, contentType := harness.Form(t, "big.jsonl", strings.Repeat("y", 300<<10), "purpose", "user_data")
		a := hoarder.Do(t, http.MethodPost, "/v1/files", form, "Content-Type", contentType)
		if a.Status == http.StatusOK {
			kept++
			continue
		}
		require.Equal(t, http.StatusTooManyRequests, a.Status, "%s", a.Body)
		require.Contains(t, string(a.Body), "'file_bytes' of the project 'greedy/files'")
		require.Equal(t, "false", a.Header.Get("X-Should-Retry"))
	}
	require.Equal(t, 3, kept, "three times 300 KiB are in 1 MiB")

	other := g.As(g.Key)
	id := other.Begin(t, "/v1/chat/completions",
		`{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":"echo/echo","messages":[{"role":"user","content":"x"}]}}`)
	require.Equal(t, "completed", other.Await(t, id).Status, "other tenants go on")
	require.Equal(t, http.StatusOK, greedy.Do(t, http.MethodGet, "/v1/batches", "").Status, "what there is can be read")
	writesHaveARate(t, g)
}

// writesHaveARate has a key with the default quotas write as fast as it can: it is told to slow down, and can be
// revoked.
func writesHaveARate(t *testing.T, g *harness.Gateway) {
	t.Helper()
	id, key := g.CreateKey(t, "flood", "p")
	c := g.As(key)
	answers := map[int]int{}
	for range 250 {
		a := c.Do(t, http.MethodPost, "/v1/uploads",
			`{"bytes":1,"filename":"a","mime_type":"text/plain","purpose":"user_data"}`, "Content-Type", "application/json")
		answers[a.Status]++
		if a.Status == http.StatusTooManyRequests && strings.Contains(string(a.Body), "writes_per_minute") {
			require.NotEmpty(t, a.Header.Get("Retry-After"))
		}
	}
	require.Positive(t, answers[http.StatusTooManyRequests])
	require.LessOrEqual(t, answers[http.StatusOK], 100, "open_uploads")
	harness.Must(t, "", "key", "revoke", "--data", g.Dir, id)
	require.Eventually(t, func() bool {
		return c.Do(t, http.MethodGet, "/v1/files", "").Status == http.StatusUnauthorized
	}, 10*time.Second, 50*time.Millisecond)
	figure(t, "250 uploads as fast as they go", "%v", answers)
}
