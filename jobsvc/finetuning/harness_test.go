package finetuning_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"gocloud.dev/blob"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/finetuning"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

var (
	acme  = store.Tenant{Organization: "acme", Project: "shop"}
	other = store.Tenant{Organization: "other"}
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// A world is what services share: etcd, the blob store, the configuration and a provider that trains.
type world struct {
	t       *testing.T
	server  *etcdtest.Server
	etcd    *clientv3.Client
	store   *store.Store
	objects *configstore.Store
	bucket  *blob.Bucket
	trainer *trainer
	api     http.Handler
	clients map[string]*provider.Client // of providers that are not the trainer

	mu     sync.Mutex // guards what follows
	config *config.Config
	hidden map[string]bool   // models that no key may use
	bare   map[string]string // names of models by shorter ones
	looked chan string       // gets the name of each hidden model that is looked for, if it has room
}

func newWorld(t *testing.T) *world {
	server := etcdtest.New(t)
	client := server.Client(t)
	bucket, err := blobstore.Open(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = bucket.Close() }) // a folder
	w := &world{
		t: t, server: server, etcd: client, store: store.New(client).Archived(bucket), objects: newObjects(client),
		bucket:  bucket,
		trainer: newTrainer(), hidden: map[string]bool{}, looked: make(chan string, 1),
	}
	w.configure(func(*config.Config) {})
	mux := http.NewServeMux()
	w.service(w.store, w.objects).Register(mux)
	w.api = httpapi.Mux(mux)
	return w
}

func newObjects(client *clientv3.Client) *configstore.Store {
	return configstore.New(client, func(o configv1.Object) error { return configv1.ValidateStored(o, nil).Err() },
		zap.NewNop())
}

// pauses is a trainer that can pause, and leaves files.
type pauses struct{ *trainer }

func (p pauses) Pause(_ context.Context, _ *provider.Client, id string) error {
	return p.at("pause", func() error { p.asked = append(p.asked, "pause"); return nil })
}

func (p pauses) Resume(_ context.Context, _ *provider.Client, id string) error {
	return p.at("resume", func() error { p.asked = append(p.asked, "resume"); return nil })
}

func (p pauses) OpenResult(_ context.Context, _ *provider.Client, id string) (io.ReadCloser, error) {
	err := p.at("result", func() error { return nil })
	return io.NopCloser(strings.NewReader("step,loss\n1,0.5\n" + id)), err
}

// configure sets the configuration: the providers trains, plain and never, and a Model of the first.
func (w *world) configure(change func(*config.Config)) {
	c := &config.Config{Models: map[string]*configv1.Model{
		"small": {Name: "small", Targets: []*configv1.Target{{Provider: "trains", Model: "small-1"}}},
		"ft:small:acme::base": {Name: "ft:small:acme::base",
			Targets:   []*configv1.Target{{Provider: "trains", Model: "tuned-1"}},
			FineTuned: &configv1.FineTuned{Job: "ftjob-x", BaseModel: "small"}},
	}, Providers: map[string]*config.Provider{
		"trains": {Config: &configv1.Provider{Name: "trains"}, Vendor: provider.Provider{FineTuning: pauses{w.trainer}}},
		"plain":  {Config: &configv1.Provider{Name: "plain"}, Vendor: provider.Provider{FineTuning: w.trainer}},
		"never":  {Config: &configv1.Provider{Name: "never"}},
	}}
	change(c)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.config = c
}

// Find, MayUse and Provider make a world a Gateway.
func (w *world) Find(ctx context.Context, key, model string) (string, error) {
	ok, err := w.MayUse(ctx, key, model)
	if err == nil && !ok {
		return "", openai.ModelNotFound(model)
	}
	return cmp.Or(w.bare[model], model), err
}

func (w *world) MayUse(_ context.Context, key, model string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key == "unlucky" {
		return false, errors.New("connection refused")
	}
	if w.hidden[model] {
		select {
		case w.looked <- model:
		default:
		}
	}
	return !w.hidden[model], nil
}

// hide has no key find a model, or all of them again.
func (w *world) hide(model string, hidden bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hidden[model] = hidden
}

func (w *world) Provider(p *config.Provider) *provider.Client {
	if c := w.clients[p.Config.GetName()]; c != nil {
		return c
	}
	return &provider.Client{Config: p.Config}
}

func (w *world) service(st *store.Store, objects *configstore.Store) *finetuning.Service {
	return finetuning.New(finetuning.Options{
		Store: st, Bucket: w.bucket, Gateway: w, Objects: objects, Now: time.Now, Log: zap.NewNop(),
		Queue:  queue.New(queue.Options{Etcd: w.etcd, Node: "a", TTL: 5 * time.Second, Log: zap.NewNop()}),
		Config: func() *config.Config { w.mu.Lock(); defer w.mu.Unlock(); return w.config },
		Announce: func(t *store.Txn, tenant store.Tenant, event, id string, at time.Time) {
			t.Do(clientv3.OpPut(fmt.Sprintf("announced/%s/%s/%d", id, event, time.Now().UnixNano()), tenant.Organization))
		},
		Soon: time.Millisecond, Late: 4 * time.Millisecond,
	})
}

// run runs a service until stop is called or the test ends.
func run(t *testing.T, s *finetuning.Service) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func (w *world) run() (stop func()) { return run(w.t, w.service(w.store, w.objects)) }

// ask sends a request as a tenant's and returns status and body.
func (w *world) ask(as store.Tenant, method, path, body string, header ...string) (int, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set(envoy.HeaderKey, "key")
	r.Header.Set(envoy.HeaderOrganization, url.QueryEscape(as.Organization))
	r.Header.Set(envoy.HeaderProject, url.QueryEscape(as.Project))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	w.api.ServeHTTP(answer, r)
	return answer.Code, answer.Body.String()
}

// upload makes a file.
func (w *world) upload(as store.Tenant, purpose, content string) string {
	r := &store.Record[files.File]{Tenant: as, ID: files.Kind.NewID(), Value: files.File{
		Filename: "train.jsonl", Purpose: purpose, Bytes: int64(len(content)), CreatedAt: time.Now().Unix(),
	}}
	require.NoError(w.t, w.bucket.WriteAll(w.t.Context(), files.BlobOf(r.ID), []byte(content), nil))
	t := w.store.Begin()
	files.Add(t, r)
	require.NoError(w.t, t.Commit(w.t.Context()))
	return r.ID
}

// create makes a job of acme's with members besides its model and file, and returns its id.
func (w *world) create(members string) string {
	file := w.upload(acme, files.PurposeFineTune, "{}\n")
	status, body := w.ask(acme, "POST", "/v1/fine_tuning/jobs", fmt.Sprintf(`{"model":"small","training_file":%q%s}`,
		file, members))
	require.Equal(w.t, 200, status, body)
	var job struct{ ID string }
	require.NoError(w.t, json.Unmarshal([]byte(body), &job))
	return job.ID
}

// await waits until a job is as it should be.
func (w *world) await(id string, is func(*finetuning.Job) bool) *store.Record[finetuning.Job] {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		r, err := finetuning.Kind.Get(ctx, w.store, acme, id)
		require.NoError(w.t, err)
		if is(&r.Value) {
			return r
		}
		watching, stop := context.WithCancel(ctx)
		select {
		case <-finetuning.Kind.Watch(watching, w.store, r):
		case <-ctx.Done():
			require.Fail(w.t, "the job did not become what it should", "%+v", r.Value)
		}
		stop()
	}
}

func over(j *finetuning.Job) bool { return j.Status.Over() }

// A seenJob is a job as clients see it.
type seenJob struct {
	ID              string            `json:"id"`
	Status          string            `json:"status"`
	FineTunedModel  *string           `json:"fine_tuned_model"`
	FinishedAt      *int64            `json:"finished_at"`
	ResultFiles     []string          `json:"result_files"`
	TrainedTokens   *int64            `json:"trained_tokens"`
	EstimatedFinish *int64            `json:"estimated_finish"`
	Hyperparameters map[string]any    `json:"hyperparameters"`
	Metadata        map[string]string `json:"metadata"`
	Error           *struct{ Code, Message, Param string }
}

func (w *world) get(id string) seenJob {
	status, body := w.ask(acme, "GET", "/v1/fine_tuning/jobs/"+id, "")
	require.Equal(w.t, 200, status, body)
	var j seenJob
	require.NoError(w.t, json.Unmarshal([]byte(body), &j))
	return j
}

// A page is a list as clients see it.
type page struct {
	Object string
	Data   []struct {
		ID        string
		Level     string
		Message   string
		CreatedAt int64  `json:"created_at"`
		Model     string `json:"fine_tuned_model_checkpoint"`
		Step      int64  `json:"step_number"`
	}
	HasMore bool    `json:"has_more"`
	FirstID *string `json:"first_id"`
}

func (w *world) page(path string) page {
	status, body := w.ask(acme, "GET", path, "")
	require.Equal(w.t, 200, status, body)
	var p page
	require.NoError(w.t, json.Unmarshal([]byte(body), &p))
	return p
}

// messages returns the messages of all events, oldest first, with errors and warnings marked.
func (w *world) messages(id string) []string {
	var all []string
	path := "/v1/fine_tuning/jobs/" + id + "/events?limit=100"
	for after := ""; ; {
		p := w.page(path + after)
		for _, e := range p.Data {
			message := strings.ReplaceAll(e.Message, id, "JOB")
			if e.Level != "info" {
				message = e.Level + ": " + message
			}
			all = append(all, message)
			after = "&after=" + e.ID
		}
		if !p.HasMore {
			slices.Reverse(all)
			return all
		}
	}
}

// keys returns how many keys of etcd begin so.
func (w *world) keys(prefix string) int {
	r, err := w.etcd.Get(w.t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(w.t, err)
	return int(r.Count)
}

// models returns the names of the fine-tuned models with their targets, sorted.
func (w *world) models() []string {
	entries, err := w.objects.List(w.t.Context(), configv1.KindOf((*configv1.Model)(nil)))
	require.NoError(w.t, err)
	var all []string
	for _, e := range entries {
		require.NoError(w.t, e.Err)
		all = append(all, e.Name+" -> "+e.Object.(*configv1.Model).GetTargets()[0].GetModel())
	}
	return all
}

// A trainer is a provider that trains, in memory. Its members are guarded by mu once a service runs.
type trainer struct {
	mu      sync.Mutex
	fails   map[string][]error // of the next calls, by name
	around  func(call string, effect func() error) error
	uploads map[string]string // contents by id
	jobs    map[string]provider.TuningJob
	asked   []string
	reports []provider.TuningReport // of the next polls; the last is repeated
	polls   int
	polled  chan struct{} // gets one for each poll, if it has room
}

func newTrainer() *trainer {
	return &trainer{
		fails: map[string][]error{}, uploads: map[string]string{}, jobs: map[string]provider.TuningJob{},
		polled:  make(chan struct{}, 1),
		around:  func(_ string, effect func() error) error { return effect() },
		reports: []provider.TuningReport{{Status: "running"}},
	}
}

// at runs the effect of a call, unless the call is to fail: with an error, or with one after its effect, as it is
// lost.
func (f *trainer) at(call string, effect func() error) error {
	return f.around(call, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if errs := f.fails[call]; len(errs) > 0 {
			err := errs[0]
			if f.fails[call] = errs[1:]; err != nil {
				if errors.Is(err, errAnswerLost) {
					_ = effect() // its result is lost
				}
				return err
			}
		}
		return effect()
	})
}

var (
	errAnswerLost = errors.New("the answer was lost")
	errDown       = errors.New("connection refused")
)

func refused(status int, message string) error {
	return &openai.Error{Status: status, Type: openai.TypeInvalidRequest, Message: message}
}

func (f *trainer) Upload(ctx context.Context, _ *provider.Client, file provider.TrainingFile) (id string, err error) {
	from, err := file.Open(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = from.Close() }() // it was read to its end
	content, err := io.ReadAll(from)
	if err != nil {
		return "", err
	}
	err = f.at("upload", func() error {
		id = fmt.Sprintf("remote-file-%d", len(f.uploads)+1)
		f.uploads[id] = string(content)
		return nil
	})
	return id, err
}

func (f *trainer) Create(_ context.Context, _ *provider.Client, j provider.TuningJob) (id string, err error) {
	err = f.at("create", func() error {
		for known, made := range f.jobs {
			if j.Again && made.TrainingFile == j.TrainingFile {
				id = known
				return nil
			}
		}
		id = fmt.Sprintf("remote-job-%d", len(f.jobs)+1)
		f.jobs[id] = j
		return nil
	})
	return id, err
}

func (f *trainer) Poll(_ context.Context, _ *provider.Client, id string) (report provider.TuningReport, err error) {
	err = f.at("poll", func() error {
		report = f.reports[0]
		if len(f.reports) > 1 {
			f.reports = f.reports[1:]
		}
		f.polls++
		return nil
	})
	select {
	case f.polled <- struct{}{}:
	default:
	}
	return report, err
}

func (f *trainer) Cancel(context.Context, *provider.Client, string) error {
	return f.at("cancel", func() error {
		f.asked = append(f.asked, "cancel")
		f.reports = []provider.TuningReport{{Status: "cancelled"}}
		return nil
	})
}

// says sets what the next polls report.
func (f *trainer) says(reports ...provider.TuningReport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = reports
}

// fail has the next calls fail.
func (f *trainer) fail(call string, errs ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails[call] = append(f.fails[call], errs...)
}

func number(n int64) *int64 { return &n }
