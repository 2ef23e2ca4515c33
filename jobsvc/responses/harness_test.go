package responses_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"gocloud.dev/blob"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/sse"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/quota"
	"github.com/modelgate/modelgate/jobsvc/responses"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

var acme = store.Tenant{Organization: "acme", Project: "shop"}

// A world is what replicas share: etcd, the blob store, the configuration, and a gateway that answers.
type world struct {
	t       *testing.T
	etcd    *clientv3.Client
	server  *etcdtest.Server
	store   *store.Store
	objects *configstore.Store
	bucket  *blob.Bucket
	folder  string
	config  config.Config
	memory  *memory.Budget

	mu     sync.Mutex // guards what follows
	now    time.Time
	asked  []gateway.Ask
	answer func(ctx context.Context, a gateway.Ask) (*http.Response, error)
}

func newWorld(t *testing.T) *world {
	server := etcdtest.New(t)
	w := &world{t: t, server: server, etcd: server.Client(t), folder: t.TempDir(), now: time.Now()}
	bucket, err := blobstore.Open(t.Context(), "file://"+w.folder)
	require.NoError(t, err)
	t.Cleanup(func() { _ = bucket.Close() }) // a folder
	w.bucket = bucket
	w.objects = configstore.New(w.etcd, func(configv1.Object) error { return nil }, zap.NewNop())
	w.store = store.New(w.etcd).Counting(responses.Counted()...)
	sealer, err := secret.NewSealer(make([]byte, 32))
	require.NoError(t, err)
	w.config = config.Config{Responses: &config.Responses{Retention: 24 * time.Hour, Sealer: sealer}}
	w.answer = says("Hello")
	return w
}

// Ask implements responses.Gateway.
func (w *world) Ask(ctx context.Context, a gateway.Ask) (*http.Response, error) {
	w.mu.Lock()
	w.asked = append(w.asked, a)
	answer := w.answer
	w.mu.Unlock()
	return answer(ctx, a)
}

// answers sets how the gateway answers from now on.
func (w *world) answers(f func(ctx context.Context, a gateway.Ask) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = f
}

// last returns the body of the request that the gateway got last, and how many it got.
func (w *world) last() (gjson.Result, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return gjson.ParseBytes(w.asked[len(w.asked)-1].Body), len(w.asked)
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// A replica serves and works until it is stopped.
type replica struct {
	*world
	*responses.Service
	api  http.Handler
	stop func()
}

func (w *world) replica() *replica {
	work := queue.New(queue.Options{Etcd: w.etcd, Node: "a", TTL: 2 * time.Second, Log: zap.NewNop()})
	s := responses.New(responses.Options{Store: w.store, Bucket: w.bucket, Queue: work, Gateway: w,
		Config: func() *config.Config { return &w.config }, Now: w.clock,
		Log:    zaptest.NewLogger(w.t, zaptest.Level(zap.ErrorLevel)),
		Memory: w.memory, Gate: quota.New(quota.Options{Objects: w.objects, Now: w.clock}),
		Limits: responses.Limits{Flush: time.Millisecond, Backoff: time.Millisecond}})
	mux := http.NewServeMux()
	s.Register(mux)
	return &replica{world: w, Service: s, api: httpapi.Mux(mux)}
}

// start returns a replica that works on background responses.
func (w *world) start() *replica {
	r := w.replica()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { r.Run(ctx) })
	r.stop = func() { cancel(); done.Wait() }
	w.t.Cleanup(r.stop)
	return r
}

// An answered request.
type answered struct {
	status int
	body   string
	gjson.Result
	header http.Header
}

// do sends a request as key_a of the project acme/shop, or as another tenant.
func (r *replica) do(method, path, body string, tenant ...string) answered {
	r.t.Helper()
	req := httptest.NewRequestWithContext(r.t.Context(), method, path, strings.NewReader(body))
	req.Header.Set(envoy.HeaderKey, "key_a")
	req.Header.Set(envoy.HeaderOrganization, "acme")
	req.Header.Set(envoy.HeaderProject, "shop")
	if len(tenant) > 0 {
		req.Header.Set(envoy.HeaderOrganization, tenant[0])
	}
	out := httptest.NewRecorder()
	r.api.ServeHTTP(out, req)
	return answered{out.Code, out.Body.String(), gjson.ParseBytes(out.Body.Bytes()), out.Header()}
}

// create creates a response and returns it.
func (r *replica) create(body string) answered {
	r.t.Helper()
	got := r.do("POST", "/v1/responses", body)
	require.Equal(r.t, 200, got.status, got.body)
	return got
}

// ended waits until a background response has ended.
func (r *replica) ended(id string) answered {
	r.t.Helper()
	var got answered
	require.Eventually(r.t, func() bool {
		got = r.do("GET", "/v1/responses/"+id, "")
		require.Equal(r.t, 200, got.status, got.body)
		return got.Get("status").Str != "queued" && got.Get("status").Str != "in_progress"
	}, patience, 5*time.Millisecond)
	return got
}

// says answers with a text, streamed where that is asked for.
func says(text string) func(context.Context, gateway.Ask) (*http.Response, error) {
	return func(_ context.Context, a gateway.Ask) (*http.Response, error) {
		object := responseOf(text)
		if !gjson.GetBytes(a.Body, "stream").Bool() {
			return response(200, "application/json", strings.NewReader(object)), nil
		}
		return response(200, "text/event-stream", strings.NewReader(beginning(text)+
			eventOf("response.completed", `"sequence_number":4,"response":`+object))), nil
	}
}

func responseOf(text string) string {
	return fmt.Sprintf(`{"id":"resp_up","object":"response","status":"completed","model":"m","store":false,`+
		`"output":[{"type":"reasoning","id":"rs_up","summary":[],"encrypted_content":"sealed"},`+
		`{"type":"message","id":"msg_%s","role":"assistant","content":[{"type":"output_text","text":%q}]}],`+
		`"usage":{"total_tokens":3}}`, text, text)
}

// beginning is the events of an answer before its end.
func beginning(text string) string {
	begun := `"response":{"id":"resp_up","status":"in_progress","output":[]}`
	return eventOf("response.created", `"sequence_number":0,`+begun) +
		eventOf("response.in_progress", `"sequence_number":1,`+begun) +
		eventOf("response.output_text.delta", fmt.Sprintf(`"sequence_number":2,"delta":%q`, text)) +
		eventOf("response.output_text.done", fmt.Sprintf(`"sequence_number":3,"text":%q`, text))
}

func eventOf(name, members string) string {
	return "event: " + name + "\ndata: {\"type\":\"" + name + "\"," + members + "}\n\n"
}

func response(status int, media string, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {media}, "X-Modelgate-Cost": {"1"}},
		Body: io.NopCloser(body)}
}

// An event of a stream.
type event struct {
	name string
	gjson.Result
}

func eventsOf(t *testing.T, text string) []event {
	var d sse.Decoder
	d.Feed([]byte(text))
	var all []event
	for {
		e, ok, err := d.Next()
		require.NoError(t, err)
		if !ok {
			return all
		}
		require.Equal(t, e.Name, gjson.GetBytes(e.Data, "type").Str)
		all = append(all, event{e.Name, gjson.Parse(string(e.Data))})
	}
}

func namesOf(all []event) (names []string) {
	for _, e := range all {
		names = append(names, strings.TrimPrefix(e.name, "response."))
	}
	return names
}

// blobs returns the names of all documents.
func (w *world) blobs() (names []string) {
	for all := w.bucket.List(nil); ; {
		o, err := all.Next(w.t.Context())
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(w.t, err)
		names = append(names, o.Key)
	}
}

// logged returns how many parts of its events a response has.
func (w *world) logged(id string) int {
	r, err := responses.Kind.Get(w.t.Context(), w.store, acme, id)
	if err != nil {
		return 0
	}
	return len(r.Value.Log.Parts)
}

// usage returns how many responses and conversations the tenant has, as they are counted.
func (w *world) usage() int64 {
	all, err := w.store.Usages(w.t.Context())
	require.NoError(w.t, err)
	for account, u := range all {
		if account.Project != "" {
			return u.Counted[store.StoredResponses]
		}
	}
	return 0
}

// bound has the project store so many responses and no more.
func (w *world) bound(most uint64) {
	_, err := w.objects.Put(w.t.Context(), &configv1.Project{Name: "acme/shop",
		Quotas: &configv1.Quotas{StoredResponses: most}}, 0)
	require.NoError(w.t, err)
}
