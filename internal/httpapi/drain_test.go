package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// refusing serves a handler that reads nothing and refuses everything, and tells when it has returned.
func refusing(t *testing.T) (address string, answered <-chan struct{}) {
	done := make(chan struct{}, 10)
	h := httpapi.Handler(zap.NewNop(), func(http.ResponseWriter, *http.Request) error {
		return openai.Code("no").On("", "No.")
	})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		done <- struct{}{}
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), done
}

// begin sends the head of a request and returns the connection.
func begin(t *testing.T, address, headers string) net.Conn {
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = fmt.Fprintf(c, "POST /x HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", headers)
	require.NoError(t, err)
	return c
}

func status(t *testing.T, c net.Conn) int {
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	return response.StatusCode
}

func TestAnErrorWaitsForTheRestOfTheRequest(t *testing.T) {
	t.Parallel()
	address, answered := refusing(t)
	c := begin(t, address, "Content-Length: 300000")
	_, err := io.WriteString(c, strings.Repeat("x", 299_999))
	require.NoError(t, err)
	select {
	case <-answered:
		t.Fatal("answered before the request was there")
	case <-time.After(100 * time.Millisecond):
	}
	_, err = io.WriteString(c, "x")
	require.NoError(t, err)
	require.Equal(t, 400, status(t, c))
	_, err = fmt.Fprint(c, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
	require.NoError(t, err)
	require.Equal(t, 400, status(t, c), "the connection is good for another request")
}

func TestAnErrorWaitsForNoMoreThanTheBounds(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string]string{
		"announced as larger":  "Content-Length: 1048577",
		"waits for invitation": "Expect: 100-continue\r\nContent-Length: 300000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, _ := refusing(t)
			began := time.Now()
			require.Equal(t, 400, status(t, begin(t, address, headers)))
			require.Less(t, time.Since(began), 4*time.Second)
		})
	}
	t.Run("larger than it says", func(t *testing.T) {
		t.Parallel()
		address, _ := refusing(t)
		c := begin(t, address, "Transfer-Encoding: chunked")
		_, err := fmt.Fprintf(c, "%x\r\n%s\r\n", 1<<20, strings.Repeat("x", 1<<20))
		require.NoError(t, err)
		require.Equal(t, 400, status(t, c), "though the body goes on")
	})
	t.Run("never comes", func(t *testing.T) {
		t.Parallel()
		address, _ := refusing(t)
		began := time.Now()
		require.Equal(t, 400, status(t, begin(t, address, "Content-Length: 300000")))
		require.GreaterOrEqual(t, time.Since(began), 4*time.Second)
		require.Less(t, time.Since(began), 30*time.Second)
	})
}
