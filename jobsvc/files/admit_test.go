package files_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/etcdtest"
)

// A tap counts what is read of a body.
type tap struct {
	io.Reader
	read atomic.Int64
}

func (b *tap) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read.Add(int64(n))
	return n, err
}

// offer sends a form once the server asks for its body, and returns how much of that was sent.
func (c *client) offer(path string, fields ...field) (a answer, sent int64) {
	c.t.Helper()
	form, contentType := encode(c.t, fields...)
	length := form.Len()
	body := &tap{Reader: form}
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url+path, body)
	require.NoError(c.t, err)
	r.ContentLength = int64(length)
	for name, value := range map[string]string{
		"Content-Type": contentType, "Expect": "100-continue", envoy.HeaderKey: "key",
		envoy.HeaderOrganization: c.organization,
	} {
		r.Header.Set(name, value)
	}
	for i := 0; i < len(c.headers); i += 2 {
		r.Header.Set(c.headers[i], c.headers[i+1])
	}
	transport := &http.Transport{ExpectContinueTimeout: time.Minute}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(r)
	require.NoError(c.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	return answer{c.t, response.StatusCode, response.Header, text}, body.read.Load()
}

func fileOf(bytes int) []field {
	return []field{{"purpose", "", "user_data"}, {"file", "a.txt", strings.Repeat("x", bytes)}}
}

func TestAFullQuotaIsHeardBeforeABodyIsSent(t *testing.T) {
	again := []string{"Idempotency-Key", "k"}
	for _, full := range []struct {
		name   string
		quotas *configv1.Quotas
		bytes  int
	}{
		{"files", &configv1.Quotas{Files: 1}, 100},
		{"file_bytes", &configv1.Quotas{FileBytes: 2 << 20}, 4 << 20},
		{"record_bytes", &configv1.Quotas{RecordBytes: 2500}, 100},
		{"idempotency_records", &configv1.Quotas{IdempotencyRecords: 1}, 100},
	} {
		t.Run(full.name, func(t *testing.T) {
			w := newWorld(t)
			full.quotas.WritesPerMinute = 1000
			w.bound(full.quotas)
			first, sent := w.as(bounded).with(again...).offer("/v1/files", fileOf(100)...)
			require.Equal(t, http.StatusOK, first.status, "%s", first.body)
			require.NotZero(t, sent)
			refused, sent := w.as(bounded).with("Idempotency-Key", "other").offer("/v1/files", fileOf(full.bytes)...)
			requireQuota(t, refused, full.name)
			require.Zero(t, sent)
			require.Len(t, w.blobs(), 1)
			if full.name == "idempotency_records" { // who repeats a request takes no more
				repeated, _ := w.as(bounded).with(again...).offer("/v1/files", fileOf(100)...)
				require.Equal(t, first.body, repeated.body)
			}
		})
	}
}

func TestAFullQuotaIsHeardBeforeAPartIsSent(t *testing.T) {
	w := newWorld(t)
	w.bound(&configv1.Quotas{FileBytes: 3 << 20, RecordBytes: 3000, WritesPerMinute: 1000})
	begun := w.as(bounded).post("/v1/uploads",
		`{"bytes":%d,"filename":"a.txt","mime_type":"text/plain","purpose":"user_data"}`, 1<<20)
	require.Equal(t, http.StatusOK, begun.status, "%s", begun.body)
	path := "/v1/uploads/" + begun.text("id") + "/parts"
	refused, sent := w.as(bounded).offer(path, field{"data", "a", strings.Repeat("y", 5<<20)})
	requireQuota(t, refused, "file_bytes")
	require.Zero(t, sent)
	for range 3 {
		part, _ := w.as(bounded).offer(path, field{"data", "a", "y"})
		require.Equal(t, http.StatusOK, part.status, "%s", part.body)
	}
	refused, sent = w.as(bounded).offer(path, field{"data", "a", "y"})
	requireQuota(t, refused, "record_bytes")
	require.Zero(t, sent)
	require.Len(t, w.blobs(), 3)
}

func TestAFullEtcdIsHeardBeforeABodyIsSent(t *testing.T) {
	full := etcdtest.WithQuota(t, 4<<20).Client(t)
	w := newWorld(t)
	w.room = etcdspace.New(full, zap.NewNop())
	_, err := w.room.Look(t.Context())
	require.NoError(t, err)
	w.bound(&configv1.Quotas{WritesPerMinute: 1000})
	begun := w.as(bounded).post("/v1/uploads",
		`{"bytes":100,"filename":"a.txt","mime_type":"text/plain","purpose":"user_data"}`)
	require.Equal(t, http.StatusOK, begun.status, "%s", begun.body)
	for i := 0; err == nil && i < 1000; i++ {
		_, err = full.Put(t.Context(), fmt.Sprint("/", i), strings.Repeat("x", 100_000))
	}
	_, err = w.room.Look(t.Context())
	require.NoError(t, err)
	for path, form := range map[string][]field{
		"/v1/files": fileOf(1 << 20), "/v1/uploads/" + begun.text("id") +
			"/parts": {{"data", "a", strings.Repeat("y", 1<<20)}},
	} {
		refused, sent := w.as(bounded).offer(path, form...)
		require.Equal(t, http.StatusInsufficientStorage, refused.status, "%s", refused.body)
		require.Contains(t, string(refused.body), `"store_full"`)
		require.Zero(t, sent)
	}
	require.Empty(t, w.blobs())
}
