package files_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A zeros reads so many zero bytes, and counts those that were read.
type zeros struct {
	left int64
	read atomic.Int64
	each func() // is called every 10 MB, if it is not nil
}

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(z.left, int64(len(p))))
	clear(p[:n])
	z.left -= int64(n)
	if read := z.read.Add(int64(n)); z.each != nil && read/(10<<20) != (read-int64(n))/(10<<20) {
		z.each()
	}
	return n, nil
}

// large returns a form whose file has so many bytes, with the fields before and after it, without holding it.
func large(t testing.TB, size int64, before, after []field) (body io.Reader, length int64, contentType string,
	content *zeros) {
	t.Helper()
	const mark = "the content goes here"
	fields := append(append(before, field{"file", "a.jsonl", mark}), after...)
	form, contentType := encode(t, fields...)
	head, tail, ok := strings.Cut(form.String(), mark)
	require.True(t, ok)
	content = &zeros{left: size}
	return io.MultiReader(strings.NewReader(head), content, strings.NewReader(tail)), int64(len(head)+len(tail)) + size,
		contentType, content
}

// send posts a form with its length, or in chunks where that is -1. It may be answered before all was sent.
func (c *client) send(path string, body io.Reader, length int64, contentType string) answer {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url+path, body)
	require.NoError(c.t, err)
	r.ContentLength = length
	r.Header.Set("Content-Type", contentType)
	r.Header.Set(envoy.HeaderKey, "key")
	r.Header.Set(envoy.HeaderOrganization, c.organization)
	r.Header.Set(envoy.HeaderProject, c.project)
	response, err := http.DefaultClient.Do(r)
	require.NoError(c.t, err)
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	return answer{c.t, response.StatusCode, response.Header, got}
}

func TestAFileThatIsTooLargeIsRefusedAsSoonAsThatIsKnown(t *testing.T) {
	w := newWorld(t)
	c := w.as(alice)
	batch, other := []field{{"purpose", "", "batch"}}, []field{{"purpose", "", "user_data"}}
	const underway = 32 << 20 // of a connection, in buffers of the system and of both sides
	for name, tc := range map[string]struct {
		size          int64
		chunked       bool
		before, after []field
		most          int64 // that is read before the answer
		limit         string
	}{
		"by its length":             {600 << 20, false, nil, other, underway, "536870912 bytes (512 MB)"},
		"batch, by its length":      {300 << 20, false, batch, nil, underway, "209715200 bytes (200 MB)"},
		"batch, as it comes":        {300 << 20, true, batch, nil, 200<<20 + underway, "209715200 bytes (200 MB)"},
		"batch, when that is known": {200<<20 + 1, true, nil, batch, 200<<20 + 1, "209715200 bytes (200 MB)"},
		"by one byte":               {512<<20 + 1, false, other, nil, 512<<20 + 1, "536870912 bytes (512 MB)"},
	} {
		t.Run(name, func(t *testing.T) {
			body, length, contentType, content := large(t, tc.size, tc.before, tc.after)
			if tc.chunked {
				length = -1
			}
			c.send("/v1/files", body, length, contentType).refused(413, "file", "file_too_large", tc.limit)
			require.LessOrEqual(t, content.read.Load(), tc.most)
			require.Empty(t, w.blobs())
		})
	}
	up := c.createUpload(100<<20, "user_data")
	body, contentType := encode(t, field{"data", "x", strings.Repeat("x", 64<<20+1)})
	c.do("POST", "/v1/uploads/"+up+"/parts", contentType, body).refused(413, "data", "file_too_large",
		"67108864 bytes (64 MB)")
	require.Empty(t, w.blobs())
}

func TestAnUploadThatBreaksOffLeavesNothing(t *testing.T) {
	w := newWorld(t)
	c := w.as(alice)
	form, contentType := encode(t, field{"purpose", "", "batch"}, field{"file", "a.jsonl", strings.Repeat(line, 10_000)})
	whole := form.String()
	up := c.createUpload(5, "user_data")
	keys := w.keys()
	for _, at := range []int{10, 200, len(whole) / 2, len(whole) - 60, len(whole) - 10} {
		c.do("POST", "/v1/files", contentType, strings.NewReader(whole[:at])).refused(400, "", "invalid_form",
			"last boundary")
		require.Empty(t, w.blobs(), "the form ends after %d bytes", at)
	}
	for path, name := range map[string]string{"/v1/files": "file", "/v1/uploads/" + up + "/parts": "data"} {
		form, contentType := encode(t, field{name, "a.txt", strings.Repeat(line, 10_000)})
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		require.NoError(t, err)
		fmt.Fprintf(conn,
			"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s: k\r\n%s: acme\r\n%s: search\r\n\r\n%s",
			path, contentType, form.Len(), envoy.HeaderKey, envoy.HeaderOrganization, envoy.HeaderProject,
			form.Next(form.Len()/2))
		require.Eventually(t, func() bool { return len(w.blobs()) == 1 }, 5*time.Second, time.Millisecond,
			"it is being written")
		require.NoError(t, conn.Close())
		w.eventuallyNoBlobs()
	}
	require.Equal(t, keys, w.keys())
	require.Zero(t, w.logs.Len(), "nobody else is to blame")
}

func TestWhatIsHeldInMemoryDoesNotGrowWithTheFile(t *testing.T) {
	w := newWorld(t)
	body, length, contentType, content := large(t, 300<<20, []field{{"purpose", "", "user_data"}}, nil)
	runtime.GC()
	var before, during runtime.MemStats
	runtime.ReadMemStats(&before)
	var highest uint64
	samples := 0
	content.each = func() {
		runtime.ReadMemStats(&during)
		highest = max(highest, during.HeapAlloc)
		samples++
	}
	w.as(alice).send("/v1/files", body, length, contentType).ok()
	require.Greater(t, samples, 20)
	grown := int64(highest) - int64(before.HeapAlloc)
	require.Less(t, grown, int64(20<<20))
	t.Logf("the heap grew by %d KB", grown>>10)
}

func TestTheSameRequestOnceMoreIsTheSameFile(t *testing.T) {
	w := newWorld(t)
	c := w.as(alice).with("Idempotency-Key", "k1")
	purpose, file := field{"purpose", "", "user_data"}, field{"file", "a.txt", "x"}
	first := c.form("/v1/files", purpose, file).ok()
	again := c.form("/v1/files", file, purpose).ok()
	require.Equal(t, first.body, again.body)
	require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	require.Len(t, w.blobs(), 1, "the second copy is gone")
	for name, fields := range map[string][]field{
		"content":  {purpose, {"file", "a.txt", "y"}},
		"filename": {purpose, {"file", "b.txt", "x"}},
		"purpose":  {{"purpose", "", "vision"}, file},
		"expiry":   {purpose, file, {"expires_after[anchor]", "", "created_at"}, {"expires_after[seconds]", "", "3600"}},
	} {
		refused := c.form("/v1/files", fields...).refused(409, "", "idempotency_key_reused", "another request")
		require.Equal(t, "false", refused.header.Get("X-Should-Retry"), name)
	}
	require.Len(t, w.blobs(), 1)
	require.NotEqual(t, first.body, w.as(bob).with("Idempotency-Key", "k1").form("/v1/files", purpose, file).ok().body,
		"another tenant's key is another")
	require.Len(t, w.blobs(), 2)

	answers := make([]answer, 8)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = w.as(alice).with("Idempotency-Key", "k2").form("/v1/files", purpose, file) })
	}
	all.Wait()
	for _, a := range answers {
		require.Equal(t, string(answers[0].ok().body), string(a.ok().body))
	}
	require.Len(t, w.blobs(), 3)

	create := `{"bytes":2,"filename":"a","mime_type":"text/plain","purpose":"user_data"}`
	up := c.with("Idempotency-Key", "k3").post("/v1/uploads", "%s", create).ok()
	require.Equal(t, up.body, c.with("Idempotency-Key", "k3").post("/v1/uploads", "%s", create).ok().body)
	c.with("Idempotency-Key", "k3").post("/v1/uploads", "%s", strings.Replace(create, "2", "3", 1)).refused(409, "",
		"idempotency_key_reused", "")
	path := "/v1/uploads/" + up.text("id") + "/parts"
	part := c.with("Idempotency-Key", "k4").form(path, field{"data", "x", "xy"}).ok()
	require.Equal(t, part.body, c.with("Idempotency-Key", "k4").form(path, field{"data", "x", "xy"}).ok().body)
	c.with("Idempotency-Key", "k4").form(path, field{"data", "x", "xz"}).refused(409, "", "idempotency_key_reused", "")
	require.Len(t, w.blobs(), 4)

	w.pass(24*time.Hour + time.Second)
	w.reap()
	require.NotEqual(t, first.body, c.form("/v1/files", purpose, file).ok().body, "a key is forgotten after a day")
}

func TestAFileWithoutContentIsListedAndSaysSo(t *testing.T) {
	w := newWorld(t)
	c := w.as(alice)
	gone, cut := c.upload("user_data", "a", "abc"), c.upload("user_data", "a", "abc")
	require.NoError(t, w.bucket.Delete(t.Context(), "files/"+gone))
	require.NoError(t, w.bucket.WriteAll(t.Context(), "files/"+cut, []byte("ab"), nil))
	for _, id := range []string{gone, cut} {
		c.get("/v1/files/" + id).ok()
		c.get("/v1/files/"+id+"/content").refused(410, "id", "file_content_missing", "upload it again")
	}
	require.Equal(t, 2, w.logs.FilterMessageSnippet("missing from the blob store").Len())
	require.Len(t, c.get("/v1/files").ids(), 2)
	c.delete("/v1/files/" + gone).ok()
	c.delete("/v1/files/" + cut).ok()
	require.Empty(t, w.blobs())
}

func TestOrphansAreCollectedAfterADay(t *testing.T) {
	t.Parallel() // it waits
	w := newWorld(t)
	c := w.as(alice)
	kept := c.upload("user_data", "a", "abc")
	up := c.createUpload(3, "user_data")
	c.addPart(up, "abc")
	for _, orphan := range []string{"files/file-01ARZ3NDEKTSV4RRFFQ69G5FAV", "files/anything", "uploads/upload_x.part_y",
		"batches/not ours"} {
		require.NoError(t, w.bucket.WriteAll(t.Context(), orphan, []byte("x"), nil))
	}
	w.collect()
	require.Len(t, w.blobs(), 6, "they are too young to be orphans")
	w.pass(24*time.Hour + time.Second)
	w.collect()
	require.ElementsMatch(t, []string{"files/" + kept, "batches/not ours"}, w.blobs())
	w.service.Store = w.store.Within(500 * time.Millisecond)
	w.etcd.Stop()
	w.pass(24 * time.Hour)
	require.Error(t, w.service.Collect(t.Context()))
	require.ElementsMatch(t, []string{"files/" + kept, "batches/not ours"}, w.blobs(), "who cannot look does not delete")
}

func TestNothingIsCollectedThatBelongsToAnotherEtcd(t *testing.T) {
	ours := newWorld(t)
	id := ours.as(alice).upload("user_data", "a", "abc")
	ours.collect()
	theirs := newWorldOn(t, ours.bucket) // or ours, after its etcd was lost
	theirs.pass(25 * time.Hour)
	for range 2 {
		require.ErrorIs(t, theirs.service.Collect(t.Context()), files.ErrOwner)
	}
	require.Equal(t, []string{"files/" + id}, ours.blobs())

	other := newWorld(t)
	other.collect()
	owner, err := other.bucket.ReadAll(t.Context(), "owner")
	require.NoError(t, err)
	require.NoError(t, ours.bucket.WriteAll(t.Context(), "owner", owner, nil))
	require.ErrorIs(t, ours.service.Collect(t.Context()), files.ErrOwner)
	require.NoError(t, ours.bucket.Delete(t.Context(), "owner"))
	ours.collect() // killed before it could write it
	ours.collect()
	ours.as(alice).get("/v1/files/" + id + "/content").ok()
}

func TestWithoutEtcdTheAnswerIs503(t *testing.T) {
	t.Parallel() // it waits
	w := newWorld(t)
	w.service.Store = w.store.Within(500 * time.Millisecond)
	c := w.as(alice)
	id, up := c.upload("user_data", "a", "abc"), c.createUpload(3, "user_data")
	w.etcd.Stop()
	began := time.Now()
	var all sync.WaitGroup
	for _, ask := range []func() answer{
		func() answer { return c.get("/v1/files") },
		func() answer { return c.get("/v1/files/" + id) },
		func() answer { return c.get("/v1/files/" + id + "/content") },
		func() answer { return c.delete("/v1/files/" + id) },
		func() answer {
			return c.form("/v1/files", field{"purpose", "", "user_data"}, field{"file", "a", "lost"})
		},
		func() answer { return c.post("/v1/uploads/"+up+"/cancel", "") },
		func() answer {
			return c.with("Idempotency-Key", "k").form("/v1/files", field{"purpose", "", "user_data"},
				field{"file", "a", "lost"})
		},
	} {
		all.Go(func() {
			a := ask().refused(503, "", "gateway_unavailable", "retry")
			require.Equal(t, "1", a.header.Get("Retry-After"))
		})
	}
	all.Wait()
	require.Less(t, time.Since(began), 5*time.Second)
	require.Len(t, w.blobs(), 2, "the one that etcd was asked to name may be needed yet")
	w.etcd.Start(t)
	require.Eventually(t, func() bool { return c.get("/v1/files").status == 200 }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, []string{id}, c.get("/v1/files").ids())
	w.pass(25 * time.Hour)
	w.collect()
	require.Equal(t, []string{"files/" + id}, w.blobs())
}

// etcd has made the transaction, but its answer is lost.
func TestAFileWhoseCreationWasNotAnsweredIsWhole(t *testing.T) {
	w := newWorld(t)
	lossy, err := clientv3.New(clientv3.Config{Endpoints: []string{w.etcd.Endpoint()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, q, a any, cc *grpc.ClientConn,
				call grpc.UnaryInvoker, o ...grpc.CallOption) error {
				err := call(ctx, method, q, a, cc, o...)
				if err == nil && strings.HasSuffix(method, "/Txn") {
					return status.Error(codes.Unavailable, "the answer is lost")
				}
				return err
			}),
		}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = lossy.Close() })
	whole := w.service.Store
	w.service.Store = store.New(lossy)
	c := w.as(alice)
	c.form("/v1/files", field{"purpose", "", "user_data"}, field{"file", "a", "abc"}).refused(503, "",
		"gateway_unavailable", "")
	w.service.Store = whole
	ids := c.get("/v1/files").ids()
	require.Len(t, ids, 1)
	require.Equal(t, "abc", string(c.get("/v1/files/"+ids[0]+"/content").ok().body))
}
