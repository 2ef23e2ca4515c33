package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A world is a service over a real etcd and a folder.
type world struct {
	room    *etcdspace.Room // nil: etcd has room for everything
	t       testing.TB
	etcd    *etcdtest.Server
	client  *clientv3.Client
	store   *store.Store
	bucket  *blob.Bucket
	dir     string
	service *files.Service
	url     string
	logs    *observer.ObservedLogs
	ahead   atomic.Int64 // how far the clock is, in nanoseconds
}

func newWorld(t testing.TB) *world {
	t.Helper()
	dir := t.TempDir()
	bucket, err := blobstore.Open(t.Context(), "file://"+filepath.ToSlash(dir))
	require.NoError(t, err)
	t.Cleanup(func() { _ = bucket.Close() })
	w := newWorldOn(t, bucket)
	w.dir = dir
	return w
}

func newWorldOn(t testing.TB, bucket *blob.Bucket) *world {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	w := &world{t: t, etcd: etcdtest.New(t), bucket: bucket, logs: logs}
	w.client = w.etcd.Client(t)
	w.store = store.New(w.client)
	w.service = files.New(files.Options{Store: w.store, Bucket: bucket, Now: w.now, Log: zap.New(core)})
	mux := http.NewServeMux()
	w.service.Register(mux)
	server := httptest.NewServer(httpapi.Mux(mux))
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *world) now() time.Time            { return time.Now().Add(time.Duration(w.ahead.Load())) }
func (w *world) pass(d time.Duration)      { w.ahead.Add(int64(d)) }
func (w *world) as(who caller) *client     { return &client{w, who, nil} }
func (w *world) reap()                     { require.NoError(w.t, w.tryReap()) }
func (w *world) collect()                  { require.NoError(w.t, w.service.Collect(w.t.Context())) }
func (w *world) begin() *store.Txn         { return w.store.Begin() }
func (w *world) commit(txn *store.Txn)     { require.NoError(w.t, txn.Commit(w.t.Context())) }
func (c *client) with(h ...string) *client { return &client{c.world, c.caller, h} }

func (w *world) tryReap() error {
	handlers := map[string]func(context.Context, store.Expiry) error{store.KindIdempotency: w.store.Forget}
	for _, kind := range files.Expiring() {
		handlers[kind] = w.service.Expire
	}
	return w.store.Reap(w.t.Context(), w.now(), handlers)
}

// blobs returns the names of what is in the folder, but for its owner's: of temporary files too.
func (w *world) blobs() []string {
	w.t.Helper()
	var names []string
	require.NoError(w.t, filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if name, _ := filepath.Rel(w.dir, path); name != "owner" {
				names = append(names, filepath.ToSlash(name))
			}
		}
		return err
	}))
	return names
}

// eventuallyNoBlobs waits until a handler whose client has gone is done.
func (w *world) eventuallyNoBlobs() {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return len(w.blobs()) == 0 }, 5*time.Second, 5*time.Millisecond)
}

// keys returns the keys in etcd, but for the blobs' owner's.
func (w *world) keys() []string {
	w.t.Helper()
	r, err := w.client.Get(w.t.Context(), store.Root, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	require.NoError(w.t, err)
	var keys []string
	for _, kv := range r.Kvs {
		if key := strings.TrimPrefix(string(kv.Key), store.Root); !strings.HasPrefix(key, "blob-owner/") {
			keys = append(keys, key)
		}
	}
	return keys
}

type caller struct{ organization, project string }

var (
	alice   = caller{"acme", "search"}
	project = caller{"acme", "other"}
	bob     = caller{"globex", "search"}
)

// A client asks as somebody, with more headers: names and values by turns.
type client struct {
	*world
	caller
	headers []string
}

type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
}

func (c *client) do(method, path, contentType string, body io.Reader) answer {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, body)
	require.NoError(c.t, err)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set(envoy.HeaderKey, "key-of-"+c.organization)
	r.Header.Set(envoy.HeaderOrganization, c.organization)
	r.Header.Set(envoy.HeaderProject, c.project)
	for i := 0; i < len(c.headers); i += 2 {
		r.Header.Set(c.headers[i], c.headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(c.t, err)
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	return answer{c.t, response.StatusCode, response.Header, got}
}

func (c *client) get(path string) answer    { c.t.Helper(); return c.do("GET", path, "", nil) }
func (c *client) delete(path string) answer { c.t.Helper(); return c.do("DELETE", path, "", nil) }

func (c *client) post(path, format string, args ...any) answer {
	c.t.Helper()
	return c.do("POST", path, "application/json", strings.NewReader(fmt.Sprintf(format, args...)))
}

// A field is a part of a form; a file where it has a name.
type field struct{ name, filename, content string }

func (c *client) form(path string, fields ...field) answer {
	c.t.Helper()
	body, contentType := encode(c.t, fields...)
	return c.do("POST", path, contentType, body)
}

func encode(t testing.TB, fields ...field) (*bytes.Buffer, string) {
	t.Helper()
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	for _, f := range fields {
		h := textproto.MIMEHeader{}
		disposition := `form-data; name="` + f.name + `"`
		if f.filename != "" {
			disposition += `; filename="` + f.filename + `"`
		}
		h.Set("Content-Disposition", disposition)
		part, err := m.CreatePart(h)
		require.NoError(t, err)
		_, err = io.WriteString(part, f.content)
		require.NoError(t, err)
	}
	require.NoError(t, m.Close())
	return &body, m.FormDataContentType()
}

// upload creates a file and returns its id.
func (c *client) upload(purpose, filename, content string) string {
	c.t.Helper()
	return c.form("/v1/files", field{"purpose", "", purpose}, field{"file", filename, content}).ok().text("id")
}

func (a answer) ok() answer {
	a.t.Helper()
	require.Equal(a.t, http.StatusOK, a.status, "%s", a.body)
	return a
}

func (a answer) object() map[string]any {
	a.t.Helper()
	var v map[string]any
	require.NoError(a.t, json.Unmarshal(a.body, &v), "%s", a.body)
	return v
}

func (a answer) text(member string) string { a.t.Helper(); return a.object()[member].(string) }

// ids returns the ids of a list.
func (a answer) ids() []string {
	a.t.Helper()
	ids := []string{}
	for _, o := range a.ok().object()["data"].([]any) {
		ids = append(ids, o.(map[string]any)["id"].(string))
	}
	return ids
}

// refused checks an error whole, but for its message, of which a part is given.
func (a answer) refused(status int, param, code, message string) answer {
	a.t.Helper()
	require.Equal(a.t, status, a.status, "%s", a.body)
	require.Equal(a.t, "application/json", a.header.Get("Content-Type"))
	e := a.object()["error"].(map[string]any)
	require.Contains(a.t, e["message"], message)
	kind := "invalid_request_error"
	if status >= 500 {
		kind = "server_error"
	}
	require.Equal(a.t, map[string]any{"message": e["message"], "type": kind, "param": nullable(param),
		"code": nullable(code)}, e)
	return a
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}
