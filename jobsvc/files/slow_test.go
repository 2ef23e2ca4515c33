package files_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/memory"
)

// Each request holds a part of its tenant's memory until its client has read the answer.
func TestClientsThatReadSlowlyAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.as(alice).upload("user_data", "a.txt", "content")
	budget, err := memory.New(1<<20, nil)
	require.NoError(t, err)
	mux := http.NewServeMux()
	files.New(files.Options{Store: w.store, Bucket: w.bucket, Now: w.now, Memory: budget, Log: zap.NewNop()}).
		Register(mux)
	writes, reads, ended := make(chan int), make(chan struct{}), make(chan int)
	open, refused := 0, 0
	for refused == 0 {
		go func() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/files/"+id+"/content", nil)
			r.Header.Set(envoy.HeaderKey, "key-of-acme")
			r.Header.Set(envoy.HeaderOrganization, alice.organization)
			r.Header.Set(envoy.HeaderProject, alice.project)
			s := testenv.NewSlowReader(writes, reads)
			mux.ServeHTTP(s, r)
			ended <- s.Code
		}()
		if status := <-writes; status == http.StatusOK {
			open++
		} else {
			refused = status
		}
	}
	require.Equal(t, http.StatusTooManyRequests, refused)
	require.Positive(t, open)
	require.LessOrEqual(t, budget.Held(), int64(512<<10), "a tenant has half of all")
	close(reads)
	for range open + 1 {
		<-ended
	}
	require.Zero(t, budget.Held())
}
