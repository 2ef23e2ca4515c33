package files_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const benchSize = 512 << 20

// BenchmarkCopy is what a file of 512 MB costs that is copied to a file beside the store, and synced.
func BenchmarkCopy(b *testing.B) {
	path := filepath.Join(b.TempDir(), "copy")
	b.SetBytes(benchSize)
	for b.Loop() {
		f, err := os.Create(path)
		require.NoError(b, err)
		_, err = io.Copy(f, &zeros{left: benchSize})
		require.NoError(b, err)
		require.NoError(b, f.Sync())
		require.NoError(b, f.Close())
		require.NoError(b, os.Remove(path))
	}
}

// BenchmarkPost is what it costs that is posted as it is to a handler that copies it to a file, and syncs it.
func BenchmarkPost(b *testing.B) {
	path := filepath.Join(b.TempDir(), "copy")
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		f, err := os.Create(path)
		require.NoError(b, err)
		_, err = io.Copy(f, r.Body)
		require.NoError(b, err)
		require.NoError(b, f.Sync())
		require.NoError(b, f.Close())
		require.NoError(b, os.Remove(path))
	}))
	defer server.Close()
	b.SetBytes(benchSize)
	for b.Loop() {
		r, err := http.NewRequest(http.MethodPost, server.URL, &zeros{left: benchSize})
		require.NoError(b, err)
		r.ContentLength = benchSize
		response, err := http.DefaultClient.Do(r)
		require.NoError(b, err)
		require.NoError(b, response.Body.Close())
	}
}

// BenchmarkUpload is what it costs that is posted to /v1/files, the client and loopback included.
func BenchmarkUpload(b *testing.B) {
	w := newWorld(b)
	c := w.as(alice)
	b.SetBytes(benchSize)
	b.ReportAllocs()
	for b.Loop() {
		body, length, contentType, _ := large(b, benchSize, []field{{"purpose", "", "user_data"}}, nil)
		c.delete("/v1/files/" + c.send("/v1/files", body, length, contentType).ok().text("id")).ok()
	}
}
