package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/internal/testenv"
)

// Whoever reads a large answer slowly holds it, and neither a turn nor more than a part of the places.
func TestClientsThatReadExportsSlowlyAreBounded(t *testing.T) {
	for name, path := range map[string]string{
		"the configuration": "/admin/v1/export",
		"usage":             fmt.Sprint("/admin/v1/usage/costs?format=csv&start_time=", time.Now().Add(-24*time.Hour).Unix()),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			withLedger(t, b)
			handler := api.New(b.config)
			writes, reads := make(chan int), make(chan struct{})
			open, refused := 0, 0
			for refused == 0 {
				go func() {
					r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
					r.Header.Set("Authorization", "Bearer "+token)
					handler.ServeHTTP(testenv.NewSlowReader(writes, reads), r)
				}()
				if status := <-writes; status == http.StatusOK {
					open++
				} else {
					refused = status
				}
			}
			require.Equal(t, http.StatusTooManyRequests, refused)
			require.Equal(t, 6, open)
			close(reads)
		})
	}
}
