package batches_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"gocloud.dev/blob"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const chat = "/v1/chat/completions"

var tenant = store.Tenant{Organization: "acme", Project: "p1"}

// A world is what replicas of the job service share, with a provider that answers as a test says.
type world struct {
	t       testing.TB
	server  *etcdtest.Server
	etcd    *clientv3.Client
	store   *store.Store
	folder  string // of the blobs
	bucket  *blob.Bucket
	asked   *asked
	gateway batches.Gateway // nil: asked
	dead    []func()        // wait for the ends of replicas that were killed
	objects *configstore.Store
	ledger  *ledger
	config  *config.Config
	limits  batches.Limits
	key     string // whose calls are made
	now     func() time.Time
	log     *zap.Logger
	logs    *observer.ObservedLogs
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, server: etcdtest.New(t), folder: t.TempDir(), asked: &asked{answer: fine, times: map[string]int{},
		answers: map[string]int{}}, key: "key-1", now: time.Now}
	core, logs := observer.New(zap.InfoLevel)
	w.log, w.logs = zap.New(core), logs
	w.etcd = w.server.Client(t)
	w.store = store.New(w.etcd)
	w.objects = configstore.New(w.etcd, func(configv1.Object) error { return nil }, zap.NewNop())
	w.ledger = &ledger{records: map[string]*ledgerv1.Record{}}
	bucket, err := blobstore.Open(t.Context(), "file://"+w.folder)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	w.bucket = bucket
	w.config = &config.Config{}
	w.limits = batches.Limits{Lines: 8, Open: 48, Backoff: time.Millisecond, Grace: 200 * time.Millisecond,
		Goodbye: 200 * time.Millisecond, Poll: time.Millisecond}
	return w
}

// service returns a replica. It has an etcd client of its own if that is not nil.
func (w *world) service(etcd *clientv3.Client) *batches.Service {
	w.t.Helper()
	if etcd == nil {
		etcd = w.etcd
	}
	var through batches.Gateway = w.asked
	if w.gateway != nil {
		through = w.gateway
	}
	s, err := batches.New(batches.Options{
		Store: store.New(etcd).Archived(w.bucket), Bucket: w.bucket, Gateway: through, Limits: w.limits, Log: w.log,
		Registerer: prometheus.NewRegistry(),
		Queue:      queue.New(queue.Options{Etcd: etcd, Node: "test", TTL: 2 * time.Second, Log: zap.NewNop()}),
		Objects:    w.objects, Ledger: w.ledger,
		Config: func() *config.Config { return w.config }, Now: func() time.Time { return w.now() },
		Announce: func(t *store.Txn, tenant store.Tenant, event, id string, _ time.Time) {
			t.Do(clientv3.OpPut("announced/"+event+"/"+id, tenant.Organization))
		},
	})
	require.NoError(w.t, err)
	return s
}

// run runs a replica until the test ends, or what it returns is called.
func (w *world) run(etcd *clientv3.Client) (stop func()) {
	w.t.Helper()
	cancel, wait := w.start(etcd)
	return func() { cancel(); wait() }
}

func (w *world) start(etcd *clientv3.Client) (cancel, wait func()) {
	w.t.Helper()
	s := w.service(etcd)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	wait = func() { <-ended }
	w.t.Cleanup(func() { cancel(); wait() })
	return cancel, wait
}

// input stores an input file and returns its id.
func (w *world) input(text string) string {
	w.t.Helper()
	id := files.Kind.NewID()
	require.NoError(w.t, w.bucket.WriteAll(w.t.Context(), files.BlobOf(id), []byte(text), nil))
	t := w.store.Begin()
	files.Add(t, &store.Record[files.File]{Tenant: tenant, ID: id, Value: files.File{
		Filename: "in.jsonl", Purpose: files.PurposeBatch, Bytes: int64(len(text)), CreatedAt: w.now().Unix(),
	}})
	require.NoError(w.t, t.Commit(w.t.Context()))
	return id
}

// call sends a request of the tenant's to the API and returns the answer.
func (w *world) call(method, path, body string, header ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	return w.callAs(tenant, method, path, body, header...)
}

func (w *world) callAs(who store.Tenant, method, path, body string, header ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	mux := http.NewServeMux()
	w.service(nil).Register(mux)
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set(envoy.HeaderKey, w.key)
	r.Header.Set(envoy.HeaderOrganization, who.Organization)
	r.Header.Set(envoy.HeaderProject, who.Project)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, r)
	return answer
}

// create makes a batch of the lines of a text and returns its id.
func (w *world) create(text string) string {
	w.t.Helper()
	return w.createFor(chat, text)
}

// createAs makes a batch of another key of the tenant's.
func (w *world) createAs(key, text string) string {
	w.t.Helper()
	before := w.key
	defer func() { w.key = before }()
	w.key = key
	return w.create(text)
}

func (w *world) createFor(endpoint, text string) string {
	w.t.Helper()
	answer := w.call("POST", "/v1/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h"}`,
		w.input(text), endpoint))
	require.Equal(w.t, http.StatusOK, answer.Code, answer.Body.String())
	return gjson.Get(answer.Body.String(), "id").String()
}

// wire is a batch as clients see it.
type wire struct {
	gjson.Result
}

func (b wire) status() string { return b.Get("status").String() }

func (w *world) get(id string) wire {
	w.t.Helper()
	answer := w.call("GET", "/v1/batches/"+id, "")
	require.Equal(w.t, http.StatusOK, answer.Code, answer.Body.String())
	return wire{gjson.Parse(answer.Body.String())}
}

// until waits for a batch of which what says is so.
func (w *world) until(id string, what func(wire) bool) wire {
	w.t.Helper()
	var b wire
	w.eventually(func() bool { b = w.get(id); return what(b) })
	return b
}

// expire has the time of a batch be over, whatever the worker writes meanwhile.
func (w *world) expire(id string) {
	w.t.Helper()
	w.eventually(func() bool {
		record, err := batches.Kind.Get(w.t.Context(), w.store, tenant, id)
		require.NoError(w.t, err)
		record.Value.ExpiresAt = time.Now().Unix()
		txn := w.store.Begin()
		batches.Kind.Update(txn, record)
		err = txn.Commit(w.t.Context())
		if !errors.Is(err, store.ErrConflict) {
			require.NoError(w.t, err)
		}
		return err == nil
	})
}

func (w *world) eventually(what func() bool) {
	w.t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !what() {
		select {
		case <-deadline.C:
			require.FailNow(w.t, "it did not come about in time")
		case <-tick.C:
		}
	}
}

// over waits for the end of a batch, and for its place in the queue to be gone. What a provider owes an answer about
// may stay.
func (w *world) over(id string) wire {
	w.t.Helper()
	b := w.until(id, func(b wire) bool {
		switch b.status() {
		case "completed", "failed", "expired", "cancelled":
			return true
		}
		return false
	})
	w.eventually(func() bool {
		r, err := w.etcd.Get(w.t.Context(), store.Root+"queue/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		require.NoError(w.t, err)
		return !slices.ContainsFunc(r.Kvs, func(kv *mvccpb.KeyValue) bool {
			return !strings.HasPrefix(string(kv.Key), store.Root+"queue/owed/")
		})
	})
	return b
}

// file returns the lines of one of a batch's files by their custom_ids, or nil if there is no such file.
func (w *world) file(b wire, member string) map[string]gjson.Result {
	w.t.Helper()
	id := b.Get(member)
	if id.Type == gjson.Null {
		return nil
	}
	record, err := files.Kind.Get(w.t.Context(), w.store, tenant, id.String())
	require.NoError(w.t, err)
	require.Equal(w.t, files.PurposeBatchOutput, record.Value.Purpose)
	text, err := w.bucket.ReadAll(w.t.Context(), files.BlobOf(id.String()))
	require.NoError(w.t, err)
	require.Equal(w.t, record.Value.Bytes, int64(len(text)))
	require.True(w.t, bytes.HasSuffix(text, []byte("\n")))
	lines := map[string]gjson.Result{}
	ids := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		require.True(w.t, gjson.Valid(line), line)
		r := gjson.Parse(line)
		require.NotContains(w.t, lines, r.Get("custom_id").String(), "it is in the file twice")
		require.NotContains(w.t, ids, r.Get("id").String())
		lines[r.Get("custom_id").String()], ids[r.Get("id").String()] = r, true
	}
	return lines
}

// segments returns how many blobs of segments there are.
func (w *world) segments() int {
	w.t.Helper()
	n := 0
	require.NoError(w.t, filepath.WalkDir(filepath.Join(w.folder, "batches"),
		func(_ string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				n++
			}
			return nil
		}))
	return n
}

// collected checks that no segment stays for good, once all that were killed are dead: what they wrote last is left
// over.
func (w *world) collected() {
	w.t.Helper()
	for _, wait := range w.dead {
		wait()
	}
	later := w.service(nil)
	later.Now = func() time.Time { return time.Now().Add(72 * time.Hour) }
	require.NoError(w.t, later.Collect(w.t.Context()))
	require.Zero(w.t, w.segments())
}

// requests returns an input with so many lines, with custom_ids a0, a1, ...
func requests(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b,
			`{"custom_id":"a%d","method":"POST","url":"%s","body":{"model":"m","messages":[{"role":"user","content":"%d"}]}}`+
				"\n", i, chat, i)
	}
	return b.String()
}

// asked is a gateway that answers as a test says, and counts.
type asked struct {
	answer func(ctx context.Context, a gateway.Ask, times int) (*http.Response, error)
	may    func(model string) (bool, error)
	bare   map[string]string // names of models by shorter ones
	client *provider.Client

	mu      sync.Mutex
	times   map[string]int // by the id under which it is charged
	answers map[string]int // likewise, where a test counts them
	keys    map[string]bool
}

// answered counts the answer to a line.
func (a *asked) answered(q gateway.Ask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[q.Charge]++
}

// answeredAgain returns how many lines have more than one answer.
func (a *asked) answeredAgain() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, times := range a.answers {
		if times > 1 {
			n++
		}
	}
	return n
}

func (a *asked) Ask(ctx context.Context, q gateway.Ask) (*http.Response, error) {
	a.mu.Lock()
	a.times[q.Charge]++
	n := a.times[q.Charge]
	if a.keys == nil {
		a.keys = map[string]bool{}
	}
	a.keys[q.Key] = true
	a.mu.Unlock()
	return a.answer(ctx, q, n)
}

func (a *asked) Find(_ context.Context, _, model string) (string, error) {
	if a.may != nil {
		if ok, err := a.may(model); !ok || err != nil {
			return "", cmp.Or(err, error(openai.ModelNotFound(model)))
		}
	}
	return cmp.Or(a.bare[model], model), nil
}

func (a *asked) Provider(*config.Provider) *provider.Client { return a.client }

// total returns how often was asked, and twice how many lines were asked more than once.
func (a *asked) total() (total, twice int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.times {
		total += n
		if n > 1 {
			twice++
		}
	}
	return total, twice
}

func respond(status int, body string, header ...string) *http.Response {
	r := &http.Response{StatusCode: status, Header: http.Header{"X-Request-Id": {"req_1"}},
		Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// fine answers with the content of the last message, and 3 + 4 tokens.
func fine(_ context.Context, a gateway.Ask, _ int) (*http.Response, error) {
	content, err := json.Marshal(gjson.GetBytes(a.Body, "messages.0.content").String())
	if err != nil {
		return nil, err
	}
	return respond(http.StatusOK, `{"object":"chat.completion","choices":[{"message":{"content":`+string(content)+`}}],`+
		`"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":2}}}`), nil
}

// number returns the number of a line, from the id under which it is charged.
func number(a gateway.Ask) int {
	_, n, _ := strings.Cut(a.Charge, "/")
	i, _ := strconv.Atoi(n)
	return i
}

var errReset = errors.New("connection reset by peer")

func wireOf(answer *httptest.ResponseRecorder) wire { return wire{gjson.Parse(answer.Body.String())} }

// announced returns the keys of the announcements.
func (w *world) announced() []string {
	w.t.Helper()
	r, err := w.etcd.Get(w.t.Context(), "announced/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	require.NoError(w.t, err)
	var keys []string
	for _, kv := range r.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// breakFolder returns what makes every access to a folder of blobs fail, and what ends that. The folder becomes a link
// that is turned to a file and back: each turn is one rename, so a writer sees it whole or broken.
func (w *world) breakFolder(name string) (breaks, restore func()) {
	w.t.Helper()
	folder := filepath.Join(w.folder, name)
	whole, file := folder+".whole", folder+".file"
	turn := func(to string) func() {
		return func() {
			if err := cmp.Or(os.Symlink(to, folder+".next"), os.Rename(folder+".next", folder)); err != nil {
				w.t.Error(err)
			}
		}
	}
	require.NoError(w.t, os.MkdirAll(folder, 0o700))
	require.NoError(w.t, os.Rename(folder, whole))
	require.NoError(w.t, os.WriteFile(file, nil, 0o600)) // nothing can be made below a file
	turn(whole)()
	return turn(file), turn(whole)
}

// breakAt breaks a folder of blobs before the n-th answer is given.
func (w *world) breakAt(n int, name string) (broken <-chan struct{}, restore func()) {
	w.t.Helper()
	breaks, restore := w.breakFolder(name)
	var asked atomic.Int64
	done := make(chan struct{})
	w.asked.answer = func(ctx context.Context, a gateway.Ask, times int) (*http.Response, error) {
		if asked.Add(1) == int64(n) {
			breaks()
			close(done)
		}
		return fine(ctx, a, times)
	}
	return done, restore
}
