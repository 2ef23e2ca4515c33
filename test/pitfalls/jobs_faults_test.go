package pitfalls

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	names "github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/files"
	jobs "github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

var errStill = errors.New("still so")

func translatedLines(t *testing.T) {
	g := overJobs(t)
	g.worker.answers(func(w http.ResponseWriter, r *http.Request, a asking) {
		vendor := strings.Split(a.path, "/")[1]
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(inDialect(vendor, a)))
	})
	const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	chat := `{"model":"%s","messages":[{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":"line-1"},{"type":"image_url","image_url":{"url":"` + pixel + `"}}]}],"max_tokens":50}`
	plain := `{"model":"%s","messages":[{"role":"user","content":"line-1"}],"max_tokens":50}`
	embed, complete := `{"model":"%s","input":["line-1","two"]}`, `{"model":"%s","prompt":"line-1","max_tokens":50}`
	for _, c := range []struct{ endpoint, model, body string }{
		{chatPath, "anthropic/claude-sonnet-4-5", chat},
		{chatPath, "gemini/gemini-3-pro-preview", chat},
		{chatPath, "bedrock/amazon.nova-lite-v1:0", chat},
		{chatPath, "cohere/command-a-03-2025", plain},
		{chatPath, "mistral/mistral-small-latest", plain},
		{"/v1/completions", "anthropic/claude-sonnet-4-5", complete},
		{"/v1/completions", "bedrock/amazon.nova-lite-v1:0", complete},
		{"/v1/embeddings", "gemini/gemini-embedding-001", embed},
		{"/v1/embeddings", "cohere/embed-v4.0", embed},
		{"/v1/embeddings", "mistral/mistral-embed", embed},
	} {
		t.Run(c.endpoint+" "+c.model, func(t *testing.T) {
			body := fmt.Sprintf(c.body, c.model)
			online := g.client.Do(t, http.MethodPost, c.endpoint, body)
			require.Equal(t, 200, online.Status, "%s", online.Body)
			b := g.client.Await(t, g.client.Begin(t, c.endpoint, harness.Line("line-1", c.endpoint, body)))
			require.Equal(t, "completed", b.Status, "%+v", b.Errors)
			require.NotNil(t, b.OutputFileID, "%v", g.client.Results(t, b.ErrorFileID))
			out, _ := g.requireResults(t, b, []string{"line-1"})
			require.Equal(t, withoutID(string(online.Body)), withoutID(string(out["line-1"].Response.Body)))
			asked := g.worker.last(2)
			require.Equal(t, asked[0].path, asked[1].path)
			require.Equal(t, asked[0].body.Raw, asked[1].body.Raw, "the vendor is sent the same")
		})
	}
}

// last returns the last n requests.
func (v *worker) last(n int) []asking {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked[len(v.asked)-n:]
}

// withoutID is an answer without what is different each time.
func withoutID(body string) any {
	m, _ := gjson.Parse(body).Value().(map[string]any)
	delete(m, "id")
	delete(m, "created")
	return m
}

// inDialect is an answer of a vendor.
func inDialect(vendor string, a asking) string {
	what := completion{text: "an answer", stop: "stop", usage: counts{prompt: 3, output: 2}}
	if strings.Contains(a.path, "mbed") {
		switch vendor {
		case "gemini":
			return `{"embeddings":[{"values":[0.5,0.25]},{"values":[0.125,1]}]}`
		case "cohere":
			return `{"id":"e","embeddings":{"float":[[0.5,0.25],[0.125,1]]},"texts":["line-1","two"],"meta":{"billed_units":{"input_tokens":3}}}`
		}
		return `{"id":"e","object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[0.5,0.25]},{"object":"embedding","index":1,"embedding":[0.125,1]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`
	}
	return map[string]dialect{"anthropic": messages, "gemini": google, "bedrock": converse, "cohere": cohere,
		"mistral": mistral, "openai": openAI}[vendor].unary(what)
}

func crashedBatch(t *testing.T) {
	const concurrency, total, held = 8, 120, 50
	dir := t.TempDir()
	g := harness.Run(t, dir, "--batch-concurrency", fmt.Sprint(concurrency))
	w := newWorker(t)
	g.Apply(t, w.config()...)
	j := jobGateway{g, g.As(g.Key), w}
	harness.Eventually(t, "configuration in force", func() error { return j.has("openai/any") })
	var answered atomic.Int64
	w.answers(func(w http.ResponseWriter, r *http.Request, a asking) {
		if answered.Add(1) > held {
			<-r.Context().Done()
			return
		}
		answerLine(w, r, a)
	})
	lines, ids := chats("openai/any", total)
	id := j.client.Begin(t, chatPath, lines...)
	harness.Eventually(t, "answers are kept, and lines are held", func() error {
		if n := j.client.Batch(t, id).Counts.Completed; n < held || answered.Load() <= held {
			return fmt.Errorf("%d are kept", n)
		}
		return nil
	})
	g.Kill()
	first := w.times()
	w.answers(answerLine)

	g = harness.Run(t, dir)
	j.Gateway, j.client = g, g.As(g.Key)
	b := j.client.Await(t, id)
	require.Equal(t, "completed", b.Status)
	out, _ := j.requireResults(t, b, ids)
	require.Len(t, out, total)
	require.EqualValues(t, 5*total, b.Usage.TotalTokens)
	again := 0
	for line, n := range w.times() {
		require.Equal(t, 1, n, "%s, since the crash", line)
		again += first[line]
	}
	t.Logf("of %d lines asked before the crash, %d were asked again", len(first), again)
	require.LessOrEqual(t, again, concurrency, "no more than were being asked")
	require.GreaterOrEqual(t, len(first)+len(w.times())-again, total, "every line was asked")
}

func endedEarly(t *testing.T) {
	t.Run("cancelled", cancelledBatch)
	t.Run("expired", expiredBatch)
}

// expiredBatch runs the parts of the job service alone, for which alone a batch can have less than a day.
func expiredBatch(t *testing.T) {
	const total, done = 20, 5
	w := newWorker(t)
	var answered atomic.Int64
	w.answers(func(w http.ResponseWriter, r *http.Request, a asking) {
		if a.line != "" && answered.Add(1) > done {
			<-r.Context().Done()
			return
		}
		answerLine(w, r, a)
	})
	c := overService(t, w, batches.Limits{Window: 3 * time.Second, Grace: 200 * time.Millisecond})
	lines, ids := chats("openai/any", total)
	b := c.Await(t, c.Begin(t, chatPath, lines...))
	require.Equal(t, "expired", b.Status)
	out, failed := jobGateway{client: c}.requireResults(t, b, ids)
	require.Len(t, out, done)
	for _, r := range failed {
		require.Nil(t, r.Response)
		require.Equal(t, "batch_expired", r.Error.Code)
		require.Contains(t, r.Error.Message, "completion window")
	}
	require.EqualValues(t, 5*done, b.Usage.TotalTokens)
	a := c.Do(t, http.MethodPost, "/v1/batches/"+b.ID+"/cancel", "")
	require.Equal(t, 409, a.Status)
	require.Equal(t, "false", a.Header.Get("X-Should-Retry"))
}

// overService starts files and batches over a real etcd. The worker is all that they ask.
func overService(t *testing.T, w *worker, limits batches.Limits) harness.Client {
	etcd := etcdtest.Start(t)
	bucket, err := blobstore.Open(t.Context(), (&url.URL{Scheme: "file", Path: t.TempDir()}).String())
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "mg") // a test's own folder is too long for a socket
	require.NoError(t, err)
	l, err := net.Listen("unix", filepath.Join(dir, "internal"))
	require.NoError(t, err)
	envoys := httptest.NewUnstartedServer(w.Config.Handler)
	envoys.Listener = l
	envoys.Start()
	out, err := jobs.New("unix://"+l.Addr().String(), nil, 10)
	require.NoError(t, err)
	log, st := zap.NewNop(), store.New(etcd)
	service, err := batches.New(batches.Options{
		Store: st, Bucket: bucket, Queue: queue.New(queue.Options{Etcd: etcd, Node: "test", Log: log}), Gateway: out,
		Config: func() *config.Config { return &config.Config{} }, Now: time.Now, Limits: limits, Log: log,
		Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	mux := http.NewServeMux()
	service.Register(mux)
	files.New(files.Options{Store: st, Bucket: bucket, Now: time.Now, Log: log}).Register(mux)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(names.HeaderKey, "key_test")
		mux.ServeHTTP(w, r)
	}))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		service.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		api.Close()
		out.Close()
		envoys.Close()
		_ = bucket.Close()
		_ = os.RemoveAll(dir)
	})
	return harness.Client{Gateway: &cases.Gateway{URL: api.URL, Key: "unused", Client: api.Client()}}
}

func cancelledBatch(t *testing.T) {
	const total, done = 60, 20
	g := overJobs(t, "--batch-concurrency", "8")
	release := make(chan struct{})
	var answered atomic.Int64
	g.worker.answers(func(w http.ResponseWriter, r *http.Request, a asking) {
		if answered.Add(1) > done {
			select {
			case <-release:
			case <-r.Context().Done():
				return
			}
		}
		answerLine(w, r, a)
	})
	lines, ids := chats("openai/any", total)
	id := g.client.Begin(t, chatPath, lines...)
	harness.Eventually(t, "some lines are done", func() error {
		if answered.Load() <= done {
			return errStill
		}
		return nil
	})
	a := g.client.Do(t, http.MethodPost, "/v1/batches/"+id+"/cancel", "")
	require.Equal(t, 200, a.Status, "%s", a.Body)
	require.Equal(t, "cancelling", a.JSON(t)["status"])
	require.NotNil(t, a.JSON(t)["cancelling_at"])
	time.AfterFunc(2*time.Second, func() { close(release) }) // a worker on another machine need not hear of it at once
	b := g.client.Await(t, id)
	require.Equal(t, "cancelled", b.Status)
	out, failed := g.requireResults(t, b, ids)
	require.GreaterOrEqual(t, len(out), done)
	require.Less(t, len(out), total)
	for _, r := range failed {
		require.Nil(t, r.Response)
		require.Equal(t, "batch_cancelled", r.Error.Code)
		require.NotEmpty(t, r.Error.Message)
	}
	require.EqualValues(t, 5*len(out), b.Usage.TotalTokens, "what was done is counted")
	for range 2 {
		a := g.client.Do(t, http.MethodPost, "/v1/batches/"+id+"/cancel", "")
		require.Equal(t, 200, a.Status, "cancelling twice changes nothing: %s", a.Body)
		require.Equal(t, "cancelled", a.JSON(t)["status"])
	}
}

func sharedProvider(t *testing.T) {
	const concurrency, total, wait = 40, 60, 2 * time.Second
	g := overJobs(t, "--batch-concurrency", fmt.Sprint(concurrency))
	var now, most atomic.Int64
	g.worker.answers(func(w http.ResponseWriter, r *http.Request, a asking) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		select {
		case <-time.After(10 * time.Millisecond):
			answerLine(w, r, a)
		case <-r.Context().Done():
		}
	})
	lines, _ := chats("openai/any", total)
	require.Equal(t, "completed", g.client.Await(t, g.client.Begin(t, chatPath, lines...)).Status)
	require.LessOrEqual(t, most.Load(), int64(concurrency))
	require.Greater(t, most.Load(), int64(1))

	// The provider has had enough: for as long as it says, it is asked no line, and live requests are answered.
	var first, refused atomic.Int64
	g.worker.answers(func(w http.ResponseWriter, r *http.Request, a asking) {
		now := time.Now().UnixMilli()
		if a.line == "" {
			answerText(w, "live")
			return
		}
		first.CompareAndSwap(0, now)
		if now-first.Load() >= wait.Milliseconds() {
			answerLine(w, r, a)
			return
		}
		refused.Add(1)
		answerStatus(w, 429, "Retry-After", fmt.Sprint(wait.Seconds()))
	})
	id := g.client.Begin(t, chatPath, lines...)
	harness.Eventually(t, "the provider refuses", func() error {
		if first.Load() == 0 {
			return errStill
		}
		return nil
	})
	began := time.Now()
	live := g.client.Chat(t, `{"model":"openai/any","messages":[{"role":"user","content":"hi"}]}`)
	require.Equal(t, 200, live.Status, "%s", live.Body)
	require.Less(t, time.Since(began), wait/2, "a live request does not wait for the batch's turn")
	b := g.client.Await(t, id)
	require.Equal(t, "completed", b.Status)
	require.Equal(t, total, b.Counts.Completed, "%+v: a refusal is tried again", b.Counts)
	require.LessOrEqual(t, refused.Load(), int64(concurrency/2),
		"none but lines that were under way is asked while the provider wants to be left alone")
}
