// Package app assembles the job service: the blob store, the connections to the gateway, the memory and the server of
// its API, which end in the reverse order. The process jobsvc and a gateway on one machine use it.
//
// Start does not run the workers. They send requests through Envoy, which a gateway on one machine starts later.
package app

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/memlimit"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/jobsvc"
	"github.com/modelgate/modelgate/jobsvc/archive"
	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/webhooks"
)

// uploadGrace is how long requests to the job service may go on when it ends.
const uploadGrace = 10 * time.Second

// Options are the settings of a job service.
type Options struct {
	Listener  net.Listener // for Envoy
	Gateway   string       // address where Envoy listens for the service
	TLS       *tls.Config  // towards the gateway; nil: it is a Unix socket
	Etcd      *clientv3.Client
	Room      *etcdspace.Room
	XDS       grpc.ClientConnInterface // to the control plane
	Node      string                   // its name there, and in claims
	Lease     time.Duration            // of claims; 0: the default
	Blobs     string                   // address of the blob store
	Held      int64                    // most bytes in memory; 0: a share of the memory
	Batches   batches.Limits
	Webhooks  webhooks.Limits
	Archive   archive.Limits
	Memory    *memlimit.Watch
	Telemetry *telemetry.Telemetry
	Ending    *parts.Ending
	Gate      func(http.Handler) http.Handler // decides which requests are served; nil: all are
	Log       *zap.Logger
}

// Start starts the API of the job service as parts of the process.
func Start(ctx context.Context, p *parts.Parts, o Options) (*jobsvc.Server, error) {
	log := o.Log.Named("jobs")
	bucket, err := blobstore.Open(ctx, o.Blobs)
	if err != nil {
		return nil, err
	}
	p.Add("blob store", func(context.Context) error { return bucket.Close() })
	out, err := gateway.New(o.Gateway, o.TLS, 2*o.Batches.Lines)
	if err != nil {
		return nil, err
	}
	p.Add("connections to the gateway", func(context.Context) error { out.Close(); return nil })
	held, err := memory.New(o.held(), o.Telemetry.Registry)
	if err != nil {
		return nil, err
	}
	server, err := jobsvc.New(jobsvc.Options{
		Etcd: o.Etcd, Room: o.Room, Bucket: bucket, Gateway: out, XDS: o.XDS, Vendors: all.Providers(),
		Validate: func(object configv1.Object) error { return configv1.ValidateStored(object, all.Known).Err() },
		Node:     o.Node, Lease: o.Lease, Shedding: o.Memory.Shedding, Memory: held,
		Batches: o.Batches, Webhooks: o.Webhooks, Archive: o.Archive,
		Log: log, Registerer: o.Telemetry.Registry, Tracer: o.Telemetry.Tracer(),
	})
	if err != nil {
		return nil, err
	}
	// No limit on how long a body takes: Envoy ends a connection that is silent. Idle connections are Envoy's to close.
	handler := httpapi.Spare(o.Memory.Shedding, isNewWork, server.Handler())
	if o.Gate != nil {
		handler = o.Gate(handler)
	}
	api := &http.Server{Handler: o.Ending.Handler(handler), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: zap.NewStdLog(log)}
	p.Serve("job service", func(ctx context.Context) error { return parts.ServeUntil(ctx, api, o.Listener, uploadGrace) })
	return server, nil
}

// Bounds of what the job service holds if the operator does not say. The rest of its memory is for what is not
// counted: its configuration, connections, and what the collector has not found yet.
const (
	leastHeld = 64 << 20
	mostHeld  = 1 << 30
)

// held returns the bound of what the job service holds in memory.
func (o *Options) held() int64 {
	if o.Held > 0 {
		return o.Held
	}
	if limit := o.Memory.Limit(); limit > 0 {
		return min(max(3*limit/8, leastHeld), mostHeld)
	}
	return memory.Total
}

// isNewWork reports whether a request to the job service makes or adds something, which takes memory.
func isNewWork(r *http.Request) bool {
	return r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "/cancel")
}
