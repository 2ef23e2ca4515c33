package models_test

import (
	"context"
	"errors"
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
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/config"
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
	heard   chan string                        // gets each provider that is asked, if it has room
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
		vanish: 10 * time.Millisecond, lags: map[string]int{}, t: t, etcd: client, logs: logs, unseen: map[string]bool{},
		lists: map[string][]*configv1.ListedModel{}, fails: map[string]error{},
		asked: map[string]int{}, heard: make(chan string, 1000),
		objects: configstore.New(client, func(o configv1.Object) error { return configv1.ValidateStored(o, nil).Err() },
			zap.NewNop()),
	}
	w.configure("a", "b")
	mux := http.NewServeMux()
	w.service(zap.New(core)).Register(mux)
	w.api = httpapi.Mux(mux)
	return w
}

func (w *world) service(log *zap.Logger) *models.Service {
	return models.New(models.Options{
		Store: store.New(w.etcd), Queue: queue.New(queue.Options{Etcd: w.etcd, Node: "n", TTL: 5 * time.Second,
			Log: zap.NewNop()}),
		Gateway: w, Objects: w.objects, Config: w.current, Interval: 20 * time.Millisecond, Check: time.Millisecond,
		Vanish: w.vanish, Log: log,
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
	_, err := w.objects.Put(w.t.Context(), &configv1.Model{Name: name,
		Targets:      []*configv1.Target{{Provider: prov, Model: upstream}},
		Organization: of.Organization, Project: of.Project, FineTuned: &configv1.FineTuned{Job: "ftjob-1", BaseModel: "m"}},
		0)
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
