package kubernetes_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A client asks one server, whose name the cluster's DNS knows and whose certificate one authority issued.
type client struct {
	base, token string
	tls         *tls.Config
	http        *http.Client
}

func newClient(t *testing.T, base, authority, token string) *client {
	t.Helper()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(authority)))
	c := &client{base: base, token: token, tls: &tls.Config{RootCAs: roots}}
	c.http = &http.Client{Transport: c.transport(""), Timeout: 2 * time.Minute}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// transport makes connections of its own, to an address in place of the one that DNS knows, if any.
func (c *client) transport(address string) *http.Transport {
	return &http.Transport{
		TLSClientConfig: c.tls.Clone(),
		DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			if address != "" {
				to = address
			}
			dialer := net.Dialer{Timeout: 10 * time.Second, Resolver: clusterDNS()}
			return dialer.DialContext(ctx, network, to)
		},
	}
}

func clusterDNS() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(os.Getenv("NODE_IP"), "53"))
	}}
}

// ask sends a request, JSON where there is a body that is not a reader, and returns the answer whole.
func (c *client) ask(method, path string, body any, contentType string) (status int, answer []byte, err error) {
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case []byte:
		reader = bytes.NewReader(body)
	case string:
		reader = bytes.NewReader([]byte(body))
	}
	request, err := http.NewRequest(method, c.base+path, reader)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	if reader != nil {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// get reads what must be there.
func (c *client) get(t *testing.T, path string) []byte {
	t.Helper()
	status, answer, err := c.ask(http.MethodGet, path, nil, "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, "%s: %s", path, answer)
	return answer
}

// post sends what must be taken, and reads the answer into an object.
func (c *client) post(t *testing.T, path string, body any, contentType string, into any) {
	t.Helper()
	status, answer, err := c.ask(http.MethodPost, path, body, contentType)
	require.NoError(t, err)
	require.Less(t, status, 300, "%s: %s", path, answer)
	require.NoError(t, json.Unmarshal(answer, into), "%s", answer)
}

// newKey makes a key with limits, and waits until the gateway takes it.
func (r *release) newKey(t *testing.T, limits string) string {
	t.Helper()
	var made struct{ Key string }
	r.admin.post(t, "/admin/v1/keys", `{"display_name":"test","limits":`+limits+`}`, "application/json", &made)
	c := *r.gateway
	c.token = made.Key
	eventually(t, 20*time.Second, "the key is known", func() error {
		status, answer, err := c.ask(http.MethodGet, "/v1/models", nil, "")
		if err != nil {
			return err
		}
		if status != http.StatusOK {
			return fmt.Errorf("%d: %s", status, answer)
		}
		return nil
	})
	return made.Key
}
