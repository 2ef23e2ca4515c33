package reports

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/harness"
)

// clientOfHTTP1 is a client of the gateway's that speaks HTTP/1.1.
func clientOfHTTP1(t *testing.T, g *harness.Gateway) *http.Client {
	t.Helper()
	transport := g.Client.Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2, transport.TLSClientConfig.NextProtos = false, []string{"http/1.1"}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// overHTTP1 asks one after the other, on one connection.
func overHTTP1(t *testing.T, g *harness.Gateway, all []early) {
	for _, e := range all {
		t.Run(e.name, func(t *testing.T) {
			client := clientOfHTTP1(t, g)
			connections := 0
			for range times {
				trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
					if !c.Reused {
						connections++
					}
				}}
				r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), e.method, g.URL+e.path,
					bytes.NewReader(body()))
				require.NoError(t, err)
				r.Header = http.Header{"Authorization": {"Bearer " + e.key}, "Content-Type": {e.contentType}}
				if e.encoded != "" {
					r.Header.Set("Content-Encoding", e.encoded)
				}
				answer, err := client.Do(r)
				require.NoError(t, err)
				require.Equal(t, 1, answer.ProtoMajor)
				require.Contains(t, e.want, answer.StatusCode)
				_, err = io.Copy(io.Discard, answer.Body)
				require.NoError(t, err)
				require.NoError(t, answer.Body.Close())
			}
			require.Equal(t, 1, connections)
		})
	}
}

// endless is a body that goes on until nobody reads it.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// bounded asks for more than is waited for, with Go's client, which reads an answer while it sends.
func bounded(t *testing.T, g *harness.Gateway) {
	for name, client := range map[string]*http.Client{"HTTP/2": g.Client, "HTTP/1.1": clientOfHTTP1(t, g)} {
		t.Run(name, func(t *testing.T) {
			never, unblock := io.Pipe()
			defer func() { _ = unblock.Close() }()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/nowhere", never)
			require.NoError(t, err)
			r.ContentLength = 1<<20 + 1
			r.Header.Set("Authorization", "Bearer "+g.Key)
			began := time.Now()
			answer, err := client.Do(r)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusNotFound, answer.StatusCode)
			require.Less(t, time.Since(began), 4*time.Second, "announced as larger: nothing is waited for")

			began = time.Now()
			require.Equal(t, http.StatusNotFound, post(t, client, g.URL+"/v1/nowhere", g.Key, endless{}))
			require.Less(t, time.Since(began), 4*time.Second, "the bytes are bounded, not only the time")
		})
	}
}
