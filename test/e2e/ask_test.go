package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var errStill = errors.New("still so")

// get asks for a path with a key and returns the status.
func (g *gateway) get(path, key string) (int, error) {
	r, err := http.NewRequest(http.MethodGet, g.URL+path, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := g.Client.Do(r)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// has returns an error until the gateway knows all of the models.
func (g *gateway) has(models ...string) error {
	for _, m := range models {
		status, err := g.get("/v1/models/"+m, g.Key)
		if err != nil {
			return err
		}
		if status != http.StatusOK {
			return fmt.Errorf("model %s: status %d", m, status)
		}
	}
	return nil
}

// accepts returns an error unless the gateway lets a key in.
func (g *gateway) accepts(key string) error {
	status, err := g.get("/v1/models", key)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}
	return err
}

// post asks with a body and returns the status and the answer.
func (g *gateway) post(path, key, body string) (int, string, error) {
	r, err := http.NewRequest(http.MethodPost, g.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	response, err := g.Client.Do(r)
	if err != nil {
		return 0, "", err
	}
	b, err := io.ReadAll(response.Body)
	return response.StatusCode, string(b), errors.Join(err, response.Body.Close())
}

// openStream asks for a stream that is longer than what buffers on the way hold, and reads its first line. It goes on
// only as it is read.
func (g *gateway) openStream(t *testing.T, size int) *http.Response {
	t.Helper()
	return g.openModel(t, "echo/echo", strings.Repeat("a ", size/2))
}

// openModel asks a model for a stream and reads its first byte.
func (g *gateway) openModel(t *testing.T, model, text string) *http.Response {
	t.Helper()
	body := `{"model":"` + model + `","stream":true,"messages":[{"role":"user","content":"` + text + `"}]}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions",
		strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.Key)
	r.Header.Set("Content-Type", "application/json")
	response, err := g.Client.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(t, 200, response.StatusCode)
	var one [1]byte
	_, err = io.ReadFull(response.Body, one[:])
	require.NoError(t, err)
	return response
}

// drain reads a stream to its end. It returns an error unless the end mark is there.
func drain(response *http.Response) error {
	b, err := io.ReadAll(response.Body)
	if err == nil && !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
		err = fmt.Errorf("the stream ended with %q", b[max(0, len(b)-200):])
	}
	return err
}
