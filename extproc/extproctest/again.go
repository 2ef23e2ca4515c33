package extproctest

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/envoy"
)

// ListenAgain serves the listener at which Envoy takes attempts of the ext_proc service, whose socket is at a path,
// until the test ends.
func (e *Envoy) ListenAgain(t testing.TB, extProc string) {
	l, err := net.Listen("unix", envoy.AgainSocket(extProc))
	require.NoError(t, err)
	s := &http.Server{Handler: http.HandlerFunc(e.takeAgain)}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
}

// takeAgain sends an attempt to its cluster, and returns the answer as it comes.
func (e *Envoy) takeAgain(w http.ResponseWriter, r *http.Request) {
	base := e.upstreams[envoy.ProviderOf(r.Header.Get(envoy.HeaderCluster))]
	if base == nil {
		w.Header().Set(envoy.HeaderDetails, "cluster_not_found")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	out := r.Clone(r.Context())
	out.RequestURI, out.URL.Scheme, out.URL.Host, out.Host = "", base.Scheme, base.Host, ""
	out.Header.Del(envoy.HeaderCluster)
	answer, err := e.transport.RoundTrip(out)
	if err != nil {
		w.Header().Set(envoy.HeaderDetails, "upstream_reset_before_response_started{connection_termination}")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	flush(w)
	if _, err := io.Copy(flushing{w}, answer.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// flushing sends each piece at once.
type flushing struct{ http.ResponseWriter }

// Write implements io.Writer.
func (f flushing) Write(b []byte) (int, error) {
	defer flush(f.ResponseWriter)
	return f.ResponseWriter.Write(b)
}
