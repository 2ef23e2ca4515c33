package jobsvc

import (
	"context"
	"net/http"
	"time"

	"github.com/modelgate/modelgate/jobsvc/config"
)

// configWait bounds the wait of a request for the first configuration. A replica that starts gets requests as soon as
// it listens, and its configuration a moment later. Without a control plane, files and jobs are served all the same.
const configWait = 5 * time.Second

// configured has requests wait for the first configuration.
func configured(c *config.Client, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.Current() == nil {
			ctx, cancel := context.WithTimeout(r.Context(), configWait)
			c.Await(ctx)
			cancel()
		}
		next.ServeHTTP(w, r)
	})
}
