// Package jobsvc is the job service: OpenAI's APIs for long-running work and stored objects with the gateway's
// providers: files, batches, fine-tuning, responses and conversations. Its state is in etcd and its bytes are in a
// blob store. All its requests to providers go through Envoy.
//
// A replica has no state of its own. If it dies, another replica continues its work from etcd and the blob store.
package jobsvc

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"gocloud.dev/blob"
	"google.golang.org/grpc"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/timing"
	"github.com/modelgate/modelgate/jobsvc/archive"
	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/finetuning"
	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/models"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/quota"
	"github.com/modelgate/modelgate/jobsvc/responses"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
	"github.com/modelgate/modelgate/jobsvc/webhooks"
)

const (
	reapEvery    = 15 * time.Second // removes expired objects
	collectEvery = 6 * time.Hour    // removes blobs without a reference
	recountEvery = time.Hour        // counts the usage of tenants again
	maxOwnPause  = 5 * time.Minute  // between attempts to check the owner of the blob store
)

// Options are the dependencies of a Server.
type Options struct {
	Etcd *clientv3.Client
	// Room monitors the space in etcd. The caller runs it. If it is nil, no space is reserved for administration.
	Room    *etcdspace.Room
	Bucket  *blob.Bucket
	Gateway *gateway.Gateway
	// XDS is a connection to the control plane.
	XDS     grpc.ClientConnInterface
	Vendors map[string]provider.Provider
	// Validate returns the error in an object of the configuration; the job service writes some.
	Validate func(configv1.Object) error
	// Node names this replica.
	Node string
	// Lease is how long the work of a dead replica waits for another one. 0: 10 s.
	Lease     time.Duration
	Batches   batches.Limits
	Webhooks  webhooks.Limits
	Archive   archive.Limits
	Responses responses.Limits
	// Memory bounds the bytes that are held for tenants. Nil: nothing does.
	Memory *memory.Budget
	// Shedding reports whether lines have to wait because memory is low. Nil: never.
	Shedding func() bool

	Log        *zap.Logger
	Registerer prometheus.Registerer
	Tracer     trace.Tracer // nil: no spans
}

// A Server is one replica of the job service.
type Server struct {
	log       *zap.Logger
	store     *store.Store
	files     *files.Service
	responses *responses.Service
	config    *config.Client
	handler   http.Handler
	workers   []func(ctx context.Context)
}

// New returns a replica that does nothing before Run.
func New(o Options) (*Server, error) {
	st := store.New(o.Etcd).Archived(o.Bucket).Counting(slices.Concat(files.Counted(),
		responses.Counted(), []store.Counted{batches.Kind, finetuning.Kind})...).Reserving(o.Room)
	s := &Server{
		log: o.Log, store: st,
		config: config.New(config.Options{XDS: o.XDS, NodeID: o.Node, Vendors: o.Vendors, Logger: o.Log.Named("config"),
			Registerer: o.Registerer}),
	}
	work := queue.New(queue.Options{Etcd: o.Etcd, Node: o.Node, TTL: o.Lease, Log: o.Log.Named("queue"),
		Registerer: o.Registerer})
	objects := configstore.New(o.Etcd, o.Validate, o.Log.Named("configstore"))
	past, err := archive.New(archive.Options{
		Store: st, Queue: work, Kinds: []archive.Kind{batches.Archived(), finetuning.Archived()}, Limits: o.Archive,
		Now: time.Now, Log: o.Log.Named("archive"), Registerer: o.Registerer,
	})
	if err != nil {
		return nil, err
	}
	gate := quota.New(quota.Options{Objects: objects, Now: time.Now, Leaves: past.Leaves})

	hooks, err := webhooks.New(webhooks.Options{
		Store: st, Queue: work, Config: s.config.Current, Now: time.Now, Limits: o.Webhooks,
		Log: o.Log.Named("webhooks"), Registerer: o.Registerer,
	})
	if err != nil {
		return nil, err
	}
	file := files.New(files.Options{Store: st, Bucket: o.Bucket, Now: time.Now, Gate: gate, Memory: o.Memory,
		Log: o.Log.Named("files")})
	batch, err := batches.New(batches.Options{
		Store: st, Bucket: o.Bucket, Queue: work, Gateway: o.Gateway, Objects: objects,
		Ledger: ledgerv1.NewLedgerClient(o.XDS),
		Config: s.config.Current, Now: time.Now, Announce: hooks.Announce, Limits: o.Batches, Gate: gate,
		Memory: o.Memory, Shedding: o.Shedding,
		Log: o.Log.Named("batches"), Registerer: o.Registerer, Tracer: o.Tracer,
	})
	if err != nil {
		return nil, err
	}
	tuning := finetuning.New(finetuning.Options{
		Store: st, Bucket: o.Bucket, Queue: work, Gateway: o.Gateway, Objects: objects, Config: s.config.Current,
		Now: time.Now, Announce: hooks.Announce, Gate: gate, Memory: o.Memory, Log: o.Log.Named("finetuning"),
	})
	model := models.New(models.Options{
		Store: st, Queue: work, Gateway: o.Gateway, Objects: objects, Config: s.config.Current, Gate: gate,
		Memory: o.Memory, Log: o.Log.Named("models"),
	})
	response := responses.New(responses.Options{
		Store: st, Bucket: o.Bucket, Queue: work, Gateway: o.Gateway, Config: s.config.Current, Now: time.Now, Gate: gate,
		Memory: o.Memory, Limits: o.Responses, Log: o.Log.Named("responses"),
	})

	s.files, s.responses = file, response
	s.handler = configured(s.config, handlerOf(o.Log, file, batch, tuning, model, response))
	s.workers = append(s.cleaners(batch), s.config.Run, batch.Run, tuning.Run, model.Run, response.Run, hooks.Run,
		past.Run)
	return s, nil
}

// A registrar adds its routes.
type registrar interface{ Register(mux *http.ServeMux) }

func handlerOf(log *zap.Logger, services ...registrar) http.Handler {
	mux := http.NewServeMux()
	for _, s := range services {
		s.Register(mux)
	}
	return rest.WithContentLength(httpapi.Recover(log, httpapi.Mux(mux)))
}

// cleaners remove expired objects and blobs without a reference.
func (s *Server) cleaners(batch *batches.Service) []func(context.Context) {
	expire := map[string]func(context.Context, store.Expiry) error{store.KindIdempotency: s.store.Forget}
	for _, kind := range files.Expiring() {
		expire[kind] = s.files.Expire
	}
	for _, kind := range responses.Expiring() {
		expire[kind] = s.responses.Expire
	}
	return []func(context.Context){
		func(ctx context.Context) {
			s.every(ctx, reapEvery, func() error { return s.store.Reap(ctx, time.Now(), expire) })
		},
		func(ctx context.Context) { s.every(ctx, recountEvery, func() error { return s.recount(ctx) }) },
		func(ctx context.Context) {
			s.every(ctx, collectEvery, func() error {
				if err := s.files.Collect(ctx); err != nil { // if the store belongs to another gateway, nothing is removed
					return err
				}
				return errors.Join(batch.Collect(ctx), s.responses.Collect(ctx),
					batches.Kind.CollectArchive(ctx, s.store, time.Now()),
					finetuning.Kind.CollectArchive(ctx, s.store, time.Now()))
			})
		},
	}
}

// Handler serves the API to Envoy.
func (s *Server) Handler() http.Handler { return s.handler }

// Run works until ctx ends and all running work has been handed over. It ends earlier with files.ErrOwner if the blob
// store belongs to another gateway.
func (s *Server) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var workers sync.WaitGroup
	workers.Go(func() {
		if err := s.own(ctx); err != nil {
			stop(err)
		}
	})
	for _, work := range s.workers {
		workers.Go(func() { work(ctx) })
	}
	workers.Wait()
	return context.Cause(ctx)
}

// recount corrects errors in the counted usage of tenants.
func (s *Server) recount(ctx context.Context) error {
	found, err := s.store.Recount(ctx)
	for _, c := range found {
		s.log.Warn("what a tenant uses was counted wrong, and is corrected", zap.Stringer("account", c.Account),
			zap.Any("too_much", c.Wrong))
	}
	return err
}

// own checks that the blob store belongs to this gateway, as soon as it and etcd answer. The error is files.ErrOwner
// or ctx's.
func (s *Server) own(ctx context.Context) error {
	for pause := time.Second; ; pause = min(2*pause, maxOwnPause) {
		err := s.files.Own(ctx)
		if err == nil || errors.Is(err, files.ErrOwner) || ctx.Err() != nil {
			return err
		}
		s.log.Warn("whose the blob store is cannot be found out; trying again", zap.Duration("in", pause), zap.Error(err))
		if err := timing.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// Ready returns the reason why requests cannot be served yet, or nil.
func (s *Server) Ready() error {
	if s.config.Current() == nil {
		return errors.New("no configuration from the control plane yet")
	}
	return nil
}

// every runs a function at an interval until ctx ends, and logs its errors.
func (s *Server) every(ctx context.Context, interval time.Duration, do func() error) {
	for timing.Sleep(ctx, interval) == nil {
		if err := do(); err != nil && ctx.Err() == nil {
			s.log.Warn("cleaning up failed; it will be tried again", zap.Duration("in", interval), zap.Error(err))
		}
	}
}
