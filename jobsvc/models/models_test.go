package models_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/finetuning"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/models"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const patience = 20 * time.Second

var acme = store.Tenant{Organization: "acme", Project: "shop"}

// A world is etcd, a configuration, and providers that list and delete in memory.
type world struct {
	t       *testing.T
	etcd    *clientv3.Client
	objects *configstore.Store
	api     http.Handler
	logs    *observer.ObservedLogs

	mu      sync.Mutex // guards what follows
	config  *config.Config
	unseen  map[string]bool // models that the key may not use
	lags    map[string]int  // for how many more looks a model that is gone is still seen
	vanish  time.Duration
	lists   map[string][]*configv1.ListedModel // by provider
	fails   map[string]error                   // of listing, by provider
	asked   map[string]int                     // how often, by provider
	heard   chan string                        // gets each provider that is asked, where it has room
	gone    []string                           // models that were deleted at the provider
	refuses error                              // of deleting
}

// A deleter is a provider's FineTuner that can delete models, and nothing else.
type deleter struct {
	provider.FineTuner
	w *world
}

func (d deleter) DeleteModel(_ context.Context, _ *provider.Client, model string) error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.w.refuses == nil {
		d.w.gone = append(d.w.gone, model)
	}
	return d.w.refuses
}

// keeper is a FineTuner that cannot delete.
type keeper struct{ provider.FineTuner }

func newWorld(t *testing.T) *world {
	client := etcdtest.Start(t)
	core, logs := observer.New(zap.InfoLevel)
	w := &world{
		vanish: 10 * time.Millisecond, lags: map[string]int{}, t: t, etcd: client, logs: logs, unseen: map[string]bool{}, lists: map[string][]*configv1.ListedModel{}, fails: map[string]error{},
		asked: map[string]int{}, heard: make(chan string, 1000),
		objects: configstore.New(client, func(o configv1.Object) error { return configv1.ValidateStored(o, nil).Err() }, zap.NewNop()),
	}
	w.configure("a", "b")
	mux := http.NewServeMux()
	w.service(zap.New(core)).Register(mux)
	w.api = httpapi.Mux(mux)
	return w
}

func (w *world) service(log *zap.Logger) *models.Service {
	return models.New(models.Options{
		Store: store.New(w.etcd), Queue: queue.New(queue.Options{Etcd: w.etcd, Node: "n", TTL: 5 * time.Second, Log: zap.NewNop()}),
		Gateway: w, Objects: w.objects, Config: w.current, Interval: 20 * time.Millisecond, Check: time.Millisecond, Vanish: w.vanish, Log: log,
	})
}

// run runs a replica until stop is called or the test ends.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	core, logs := observer.New(zap.InfoLevel)
	w.logs = logs
	done := make(chan struct{})
	s := w.service(zap.New(core))
	go func() { defer close(done); s.Run(ctx) }()
	stop = func() { cancel(); <-done }
	w.t.Cleanup(stop)
	return stop
}

func (w *world) current() *config.Config {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.config
}

// configure sets the providers. All can list; a can delete models, b trains but cannot, and the others do not train.
func (w *world) configure(providers ...string) {
	c := &config.Config{Providers: map[string]*config.Provider{}, Models: map[string]*configv1.Model{}}
	for _, name := range providers {
		p := &config.Provider{Config: &configv1.Provider{Name: name}, Vendor: provider.Provider{Models: w.list}}
		switch name {
		case "a":
			p.Vendor.FineTuning = deleter{w: w}
		case "b":
			p.Vendor.FineTuning = keeper{}
		}
		c.Providers[name] = p
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.config = c
}

func (w *world) list(ctx context.Context, c *provider.Client) ([]*configv1.ListedModel, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := c.Config.GetName()
	w.asked[name]++
	select {
	case w.heard <- name:
	default:
	}
	return w.lists[name], w.fails[name]
}

// set changes what a provider lists.
func (w *world) set(name string, err error, ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails[name], w.lists[name] = err, nil
	for _, id := range ids {
		w.lists[name] = append(w.lists[name], &configv1.ListedModel{Id: id, Created: 7, OwnedBy: "them"})
	}
}

// rounds waits until a provider was asked so many times more.
func (w *world) rounds(name string, n int) {
	for len(w.heard) > 0 {
		<-w.heard
	}
	timeout := time.After(patience)
	for n > 0 {
		select {
		case heard := <-w.heard:
			if heard == name {
				n--
			}
		case <-timeout:
			require.Fail(w.t, "the provider was not asked")
		}
	}
}

// MayUse and Provider make a world a Gateway.
func (w *world) MayUse(_ context.Context, key, model string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key == "unlucky" {
		return false, errors.New("connection refused")
	}
	if n, ok := w.lags[model]; ok && len(w.gone) > 0 {
		w.lags[model] = n - 1
		return n > 0, nil
	}
	return !w.unseen[model], nil
}

func (w *world) Provider(p *config.Provider) *provider.Client {
	return &provider.Client{Config: p.Config}
}

// awaitListings waits until there are these Listings, each with the ids of its models.
func (w *world) awaitListings(want map[string]string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	changes := w.etcd.Watch(ctx, "/modelgate/v1/listings/", clientv3.WithPrefix())
	for {
		entries, err := w.objects.List(w.t.Context(), configv1.KindOf((*configv1.Listing)(nil)))
		require.NoError(w.t, err)
		got := map[string]string{}
		for _, e := range entries {
			require.NoError(w.t, e.Err)
			var ids []string
			for _, m := range e.Object.(*configv1.Listing).GetModels() {
				ids = append(ids, m.GetId())
			}
			got[e.Name] = strings.Join(ids, " ")
		}
		if maps.Equal(got, want) {
			return
		}
		select {
		case _, ok := <-changes:
			require.True(w.t, ok, "got %v, want %v", got, want)
		case <-ctx.Done():
			require.Equal(w.t, want, got)
		}
	}
}

// put stores a fine-tuned model.
func (w *world) put(name, prov, upstream string, of store.Tenant) {
	_, err := w.objects.Put(w.t.Context(), &configv1.Model{Name: name, Targets: []*configv1.Target{{Provider: prov, Model: upstream}},
		Organization: of.Organization, Project: of.Project, FineTuned: &configv1.FineTuned{Job: "ftjob-1", BaseModel: "m"}}, 0)
	require.NoError(w.t, err)
}

func (w *world) delete(as store.Tenant, path string, header ...string) (int, string) {
	r := httptest.NewRequest(http.MethodDelete, "/v1/models/"+path, nil)
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

func (w *world) there(name string) bool {
	_, err := w.objects.Get(w.t.Context(), configv1.KindOf((*configv1.Model)(nil)), name)
	if !errors.Is(err, configstore.ErrNotFound) {
		require.NoError(w.t, err)
	}
	return err == nil
}

func TestAFineTunedModelIsDeletedAtItsProviderToo(t *testing.T) {
	for name, path := range map[string]string{"plain": "ft:a/m:acme::1", "escaped": "ft%3Aa%2Fm%3Aacme%3A%3A1"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put("ft:a/m:acme::1", "a", "tuned-1", acme)
			status, body := w.delete(acme, path)
			require.Equal(t, 200, status, body)
			require.Equal(t, `{"id":"ft:a/m:acme::1","object":"model","deleted":true}`, body)
			require.False(t, w.there("ft:a/m:acme::1"))
			require.Equal(t, []string{"tuned-1"}, w.gone)
		})
	}
}

func TestADeletionWaitsForTheGatewayToHearOfIt(t *testing.T) {
	w := newWorld(t)
	w.vanish = time.Minute
	mux := http.NewServeMux()
	w.service(zap.NewNop()).Register(mux)
	w.api = httpapi.Mux(mux)
	w.put("ft:m", "a", "tuned", acme)
	w.lags["ft:m"] = 3
	require.Equal(t, 200, first(w.delete(acme, "ft:m")))
	require.Negative(t, w.lags["ft:m"], "it was seen three times more, and then not")
}

func TestAModelIsDeletedHereWhereTheProviderHasNothingToDelete(t *testing.T) {
	for name, tc := range map[string]struct{ provider, upstream string }{
		"a provider that cannot":            {"b", "tuned"},
		"a provider that is gone":           {"z", "tuned"},
		"another model is served by it too": {"a", "shared"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.config.Models["alias"] = &configv1.Model{Name: "alias", Targets: []*configv1.Target{{Provider: "a", Model: "shared"}}}
			w.put("ft:m", tc.provider, tc.upstream, acme)
			require.Equal(t, 200, first(w.delete(acme, "ft:m")))
			require.False(t, w.there("ft:m"))
			require.Empty(t, w.gone)
		})
	}
}

func TestWhatIsNotTheCallersIsNotDeleted(t *testing.T) {
	w := newWorld(t)
	w.put("ft:theirs", "a", "t", store.Tenant{Organization: "other"})
	w.put("ft:wide", "a", "t2", store.Tenant{Organization: "acme"})
	w.put("ft:ours", "a", "t3", acme)
	w.unseen["ft:theirs"], w.unseen["ft:missing"] = true, true
	for path, want := range map[string]int{"ft:theirs": 404, "ft:missing": 404, "ft:wide": 403, "a/m": 403, "m": 403} {
		status, body := w.delete(acme, path)
		require.Equal(t, want, status, path)
		if want == 404 {
			require.Equal(t, `{"error":{"message":"The model `+"`"+path+"`"+` does not exist or you do not have access to it.","type":"invalid_request_error","param":"model","code":"model_not_found"}}`, body)
		}
	}
	for _, as := range []store.Tenant{{}, {Organization: "acme"}, {Organization: "acme", Project: "else"}} {
		require.Equal(t, 403, first(w.delete(as, "ft:ours")), "%v", as)
	}
	require.True(t, w.there("ft:theirs") && w.there("ft:wide") && w.there("ft:ours"))
	require.Empty(t, w.gone)
	require.Equal(t, 200, first(w.delete(acme, "ft:ours")))
}

func TestAModelThatWasDeletedJustNowIsNotThere(t *testing.T) {
	w := newWorld(t)
	// The gateway has not heard of it yet.
	w.config.Models["ft:m"] = &configv1.Model{Name: "ft:m", Organization: acme.Organization, Project: acme.Project, FineTuned: &configv1.FineTuned{Job: "ftjob-1"}}
	status, body := w.delete(acme, "ft:m")
	require.Equal(t, 404, status, body)
	require.Contains(t, body, `"model_not_found"`)
}

func TestTwoDeletionsAtOnceAreOne(t *testing.T) {
	w := newWorld(t)
	w.put("ft:m", "a", "t", acme)
	statuses := make(chan int, 8)
	for range cap(statuses) {
		go func() { statuses <- first(w.delete(acme, "ft:m")) }()
	}
	deleted := 0
	for range cap(statuses) {
		switch status := <-statuses; status {
		case 200:
			deleted++
		case 403, 404, 409: // a conflict is no failure of the gateway's, which would be logged
		default:
			require.Fail(t, "unexpected", "%d", status)
		}
	}
	require.Equal(t, 1, deleted)
}

func TestNothingIsDeletedWhileTheProviderDoesNotSaySo(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"no connection": {io.ErrUnexpectedEOF, 503},
		"its failure":   {&openai.Error{Status: 500, Message: "x"}, 503},
		"its refusal":   {&openai.Error{Status: 403, Type: openai.TypeInvalidRequest, Message: "Only owners."}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put("ft:m", "a", "tuned", acme)
			w.refuses = tc.err
			status, body := w.delete(acme, "ft:m")
			require.Equal(t, tc.want, status, body)
			require.True(t, w.there("ft:m"))
			w.refuses = nil
			require.Equal(t, 200, first(w.delete(acme, "ft:m")))
		})
	}
}

func TestAModelIsNotDeletedWhileItsJobIsBeingFinished(t *testing.T) {
	w := newWorld(t)
	st := store.New(w.etcd)
	r := &store.Record[finetuning.Job]{Tenant: acme, ID: finetuning.Kind.NewID(), Value: finetuning.Job{Status: job.TuningRunning}}
	txn := st.Begin()
	finetuning.Kind.Create(txn, r)
	require.NoError(t, txn.Commit(t.Context()))
	_, err := w.objects.Put(t.Context(), &configv1.Model{Name: "ft:m", Targets: []*configv1.Target{{Provider: "a", Model: "tuned"}},
		Organization: acme.Organization, Project: acme.Project, FineTuned: &configv1.FineTuned{Job: r.ID, BaseModel: "m"}}, 0)
	require.NoError(t, err)
	require.Equal(t, 503, first(w.delete(acme, "ft:m")))
	require.Empty(t, w.gone)
	r.Value.Status = job.TuningSucceeded
	txn = st.Begin()
	finetuning.Kind.Update(txn, r)
	require.NoError(t, txn.Commit(t.Context()))
	require.Equal(t, 200, first(w.delete(acme, "ft:m")))
}

func TestDeletionCanBeTriedAgainWhereTheGatewayIsAway(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, 503, first(w.delete(acme, "ft:m", envoy.HeaderKey, "unlucky")))
	w.config = nil
	w.put("ft:m", "a", "tuned", acme)
	require.Equal(t, 503, first(w.delete(acme, "ft:m")))
	require.True(t, w.there("ft:m"))
}

func first(status int, _ string) int { return status }

func TestWhatProvidersListIsKept(t *testing.T) {
	w := newWorld(t)
	w.set("a", nil, "m2", "m1", "m2", "bad\nname", "", strings.Repeat("x", 257))
	w.set("b", nil)
	w.run()
	w.awaitListings(map[string]string{"a": "m1 m2", "b": ""})
	e, err := w.objects.Get(t.Context(), configv1.KindOf((*configv1.Listing)(nil)), "a")
	require.NoError(t, err)
	require.Equal(t, "them", e.Object.(*configv1.Listing).GetModels()[0].GetOwnedBy())

	w.rounds("a", 3)
	again, err := w.objects.Get(t.Context(), configv1.KindOf((*configv1.Listing)(nil)), "a")
	require.NoError(t, err)
	require.Equal(t, e.Revision, again.Revision, "what has not changed is not written")

	w.set("a", nil, "m3")
	w.awaitListings(map[string]string{"a": "m3", "b": ""})
	w.configure("a", "c")
	w.set("c", nil, "n")
	w.awaitListings(map[string]string{"a": "m3", "c": "n"})
	w.configure("a", "b", "c")
	w.awaitListings(map[string]string{"a": "m3", "b": "", "c": "n"})
}

func TestAProviderThatFailsKeepsItsListAndIsToldOfOnce(t *testing.T) {
	w := newWorld(t)
	w.set("a", nil, "m")
	stop := w.run()
	w.awaitListings(map[string]string{"a": "m", "b": ""})
	w.set("a", errors.New("connection refused"))
	w.rounds("a", 5)
	w.awaitListings(map[string]string{"a": "m", "b": ""})
	w.set("a", nil, "m", "n")
	w.awaitListings(map[string]string{"a": "m n", "b": ""})
	w.rounds("a", 2)
	stop()
	require.Equal(t, 1, w.logs.FilterMessage("a provider did not list its models; its last list stays").Len())
	require.Equal(t, 1, w.logs.FilterMessage("a provider lists its models again").Len())
}

func TestAChangedProviderIsAskedAtOnce(t *testing.T) {
	w := newWorld(t)
	s := models.New(models.Options{
		Store: store.New(w.etcd), Queue: queue.New(queue.Options{Etcd: w.etcd, Node: "n", Log: zap.NewNop()}),
		Gateway: w, Objects: w.objects, Config: w.current, Interval: time.Hour, Check: time.Millisecond, Log: zap.NewNop(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	defer func() { cancel(); <-done }()
	w.awaitListings(map[string]string{"a": "", "b": ""})
	w.set("a", nil, "m")
	next := &config.Config{Providers: maps.Clone(w.current().Providers)}
	next.Providers["a"] = &config.Provider{Config: &configv1.Provider{Name: "a", Endpoint: "https://elsewhere"}, Vendor: next.Providers["a"].Vendor}
	w.mu.Lock()
	w.config = next
	w.mu.Unlock()
	w.awaitListings(map[string]string{"a": "m", "b": ""})
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Equal(t, map[string]int{"a": 2, "b": 1}, w.asked)
}

func TestAListIsBounded(t *testing.T) {
	w := newWorld(t)
	var ids []string
	for i := range 6000 {
		ids = append(ids, fmt.Sprintf("%04d-%s", i, strings.Repeat("<", 250)))
	}
	w.set("a", nil, ids...)
	w.set("b", nil, ids[:3]...)
	w.run()
	w.rounds("b", 2)
	e, err := w.objects.Get(t.Context(), configv1.KindOf((*configv1.Listing)(nil)), "a")
	require.NoError(t, err)
	n := len(e.Object.(*configv1.Listing).GetModels())
	require.Greater(t, n, 1000)
	text, err := configv1.Marshal(e.Object)
	require.NoError(t, err)
	require.Less(t, len(text), 1<<20)

	for i := range ids {
		ids[i] = ids[i][:10]
	}
	w.set("a", nil, ids...)
	w.awaitListings(map[string]string{"a": strings.Join(ids[:5000], " "), "b": strings.Join([]string{"0000-" + strings.Repeat("<", 250), "0001-" + strings.Repeat("<", 250), "0002-" + strings.Repeat("<", 250)}, " ")})
}

func TestOneOfTwoReplicasAsks(t *testing.T) {
	w := newWorld(t)
	w.set("a", nil, "m")
	stop := w.run()
	w.awaitListings(map[string]string{"a": "m", "b": ""})
	w.run()
	w.rounds("a", 5)
	claims, err := w.etcd.Get(t.Context(), store.Root+"claims/listing/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Len(t, claims.Kvs, 1)
	stop()
	w.set("a", nil, "n")
	w.awaitListings(map[string]string{"a": "n", "b": ""})
}
