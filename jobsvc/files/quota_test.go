package files_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/quota"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// bound puts a gate before the world's service, for an organization with quotas.
func (w *world) bound(q *configv1.Quotas) {
	w.t.Helper()
	objects := configstore.New(w.client, func(configv1.Object) error { return nil }, zap.NewNop())
	_, err := objects.Put(w.t.Context(), &configv1.Organization{Name: "org", Quotas: q}, 0)
	require.NoError(w.t, err)
	w.store = store.New(w.client).Counting(files.Counted()...).Reserving(w.room)
	w.service = files.New(files.Options{Store: w.store, Bucket: w.bucket, Now: w.now, Log: zap.NewNop(),
		Gate: quota.New(quota.Options{Objects: objects, Now: w.now})})
	mux := http.NewServeMux()
	w.service.Register(mux)
	server := httptest.NewServer(httpapi.Mux(mux))
	w.t.Cleanup(server.Close)
	w.url = server.URL
}

var bounded = caller{organization: "org"}

// put uploads a file.
func (c *client) put(content string) answer {
	c.t.Helper()
	return c.form("/v1/files", field{"purpose", "", "user_data"}, field{"file", "a.txt", content})
}

// used is what the organization uses, which a recount must not change.
func (w *world) used() store.Amounts {
	w.t.Helper()
	found, err := w.store.Recount(w.t.Context())
	require.NoError(w.t, err)
	require.Empty(w.t, found, "what is counted is what is there")
	all, err := w.store.Usages(w.t.Context())
	require.NoError(w.t, err)
	return all[store.Account{Organization: "org"}].Counted
}

func requireQuota(t *testing.T, a answer, name string) {
	t.Helper()
	require.Equal(t, http.StatusTooManyRequests, a.status, "%s", a.body)
	require.Contains(t, string(a.body), "'"+name+"' of the organization 'org' is used up")
	require.Contains(t, string(a.body), `"insufficient_quota"`)
	require.Equal(t, "false", a.header.Get("X-Should-Retry"))
}

func TestBytesOfFilesAreBoundBeforeTheyAreWritten(t *testing.T) {
	w := newWorld(t)
	w.bound(&configv1.Quotas{FileBytes: 3000, WritesPerMinute: 1000})
	as := w.as(bounded)
	big := strings.Repeat("x", 2000)
	first := as.put(big)
	require.Equal(t, http.StatusOK, first.status, "%s", first.body)
	require.EqualValues(t, 2000, w.used()[store.FileBytes], "the form around it does not count any more")
	requireQuota(t, as.put(big), "file_bytes")
	require.Len(t, w.blobs(), 1, "what was refused has left no bytes")
	require.EqualValues(t, 1, w.used()[store.Files])

	gone := as.delete("/v1/files/" + first.text("id"))
	require.Equal(t, http.StatusOK, gone.status)
	require.Equal(t, store.Amounts{}, w.used())
	require.Equal(t, http.StatusOK, as.put(big).status)
}

func TestNobodyGetsMoreFilesByBeingManyAtOnce(t *testing.T) {
	w := newWorld(t)
	const quota, asking = 7, 25
	w.bound(&configv1.Quotas{Files: quota, WritesPerMinute: 1000})
	status := make([]int, asking)
	var group sync.WaitGroup
	for i := range asking {
		group.Go(func() { status[i] = w.as(bounded).put(fmt.Sprintf("file %d", i)).status })
	}
	group.Wait()
	made := 0
	for _, s := range status {
		if s == http.StatusOK {
			made++
		} else {
			require.Equal(t, http.StatusTooManyRequests, s)
		}
	}
	require.LessOrEqual(t, made, quota)
	for range quota - made { // one may have been refused because of a reservation that came to nothing
		require.Equal(t, http.StatusOK, w.as(bounded).put("one more").status)
	}
	requireQuota(t, w.as(bounded).put("too much"), "files")
	require.Len(t, w.blobs(), quota)
	require.EqualValues(t, quota, w.used()[store.Files])
}

func TestAnUploadCountsUntilItEnds(t *testing.T) {
	w := newWorld(t)
	w.bound(&configv1.Quotas{FileBytes: 1000, OpenUploads: 2, KeptUploads: 3, WritesPerMinute: 1000})
	as := w.as(bounded)
	begin := func(bytes int) answer {
		return as.post("/v1/uploads", `{"bytes":%d,"filename":"a.txt","mime_type":"text/plain","purpose":"user_data"}`,
			bytes)
	}
	first := begin(600)
	require.Equal(t, http.StatusOK, first.status, "%s", first.body)
	requireQuota(t, begin(600), "file_bytes")
	second := begin(300)
	require.Equal(t, http.StatusOK, second.status)
	requireQuota(t, begin(1), "open_uploads")

	part := as.form("/v1/uploads/"+second.text("id")+"/parts", field{"data", "a", strings.Repeat("y", 300)})
	require.Equal(t, http.StatusOK, part.status, "%s", part.body)
	requireQuota(t, as.form("/v1/uploads/"+second.text("id")+"/parts", field{"data", "a", strings.Repeat("y", 300)}),
		"file_bytes")
	require.EqualValues(t, 900, w.used()[store.FileBytes])
	done := as.post("/v1/uploads/"+second.text("id")+"/complete", `{"part_ids":[%q]}`, part.text("id"))
	require.Equal(t, http.StatusOK, done.status, "%s", done.body)
	require.EqualValues(t, 900, w.used()[store.FileBytes])
	require.EqualValues(t, 1, w.used()[store.OpenUploads])
	require.Equal(t, http.StatusOK, as.post("/v1/uploads/"+first.text("id")+"/cancel", "").status)
	require.EqualValues(t, 300, w.used()[store.FileBytes])

	third := begin(100)
	require.Equal(t, http.StatusOK, third.status)
	requireQuota(t, begin(1), "kept_uploads")
	w.pass(2 * time.Hour)
	w.reap() // the third is over
	require.EqualValues(t, 0, w.used()[store.OpenUploads])
	require.EqualValues(t, 300, w.used()[store.FileBytes])
	w.pass(25 * time.Hour)
	w.reap()
	require.EqualValues(t, 0, w.used()[store.KeptUploads])
}

func TestWritesAreHeldToTheirRate(t *testing.T) {
	w := newWorld(t)
	w.bound(&configv1.Quotas{WritesPerMinute: 6})
	as := w.as(bounded)
	for range 2 {
		require.Equal(t, http.StatusNotFound, as.delete("/v1/files/file-1").status)
	}
	refused := as.delete("/v1/files/file-1")
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Contains(t, string(refused.body), "writes_per_minute")
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	require.Equal(t, http.StatusNotFound, as.get("/v1/files/file-1").status, "who reads is not held to it")
	w.pass(11 * time.Second)
	require.Equal(t, http.StatusNotFound, as.delete("/v1/files/file-1").status)
}
