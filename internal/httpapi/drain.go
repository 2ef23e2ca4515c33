package httpapi

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Bounds of the bytes that a client may still send after its answer is an error, and of their time. Drain
// of extproc/exchange has the same bounds for requests that the job service never sees.
const (
	maxDrained = 1 << 20
	drainTime  = 5 * time.Second
	lastRead   = 500 * time.Millisecond
)

// drain throws away what still comes of a request that gets an error: over HTTP/2 clients lose an answer that comes
// before they have sent all. What says that it is larger, and who waits to be invited, has its answer at once.
func drain(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength > maxDrained || r.Header.Get("Expect") != "" {
		return
	}
	c := http.NewResponseController(w)
	if c.SetReadDeadline(time.Now().Add(drainTime)) != nil {
		return
	}
	var next time.Time
	if _, err := io.CopyN(io.Discard, r.Body, maxDrained); !errors.Is(err, io.EOF) {
		// net/http reads a little more before it writes the answer, and only then lingers on a connection that it closes
		// with something unread: closed at once, it would be reset, and the answer lost.
		next = time.Now().Add(lastRead)
	}
	_ = c.SetReadDeadline(next)
}
