// Package app assembles the ext_proc service: the stores of limits and of answers, the spool and the server, which end
// in the reverse order. The process extproc and a gateway on one machine use it.
//
// It knows no flags. What a flag may say is checked and opened before.
package app

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/extproc"
	"github.com/modelgate/modelgate/extproc/peers"
	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/memlimit"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/respcache"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/internal/turns"
	"github.com/modelgate/modelgate/internal/usage"
)

// Options are the settings of an ext_proc service.
type Options struct {
	Listener   net.Listener             // for Envoy
	XDS        grpc.ClientConnInterface // to the control plane
	Node       string                   // its name there
	Grace      time.Duration            // how long running requests may continue when it ends
	Limits     Limits
	Answers    Answers
	Peers      *peers.Options // to the other processes of the service; nil: there are none
	Ending     func() error   // see extproc.Options
	Spool      string         // the folder of records that the ledger does not have yet
	SpoolBytes int64          // 0: the default
	Memory     *memlimit.Watch
	Bytes      *inflight.Bytes // of bodies
	Sessions   int             // that may be open; 0: no bound
	Telemetry  *telemetry.Telemetry
	Log        *zap.Logger
}

// Limits say where usage is counted.
type Limits struct {
	Redis    redis.UniversalClient // closed with the service; nil: in memory
	Prefix   string
	FailOpen bool    // admits requests while Redis is unavailable
	Share    float64 // of each limit, while Redis is unavailable
	Timeout  time.Duration
	Division limit.Division
}

// Answers say where response caches keep answers.
type Answers struct {
	Redis   redis.UniversalClient // closed with the service; nil: in memory
	Prefix  string
	Timeout time.Duration
}

// Start starts the service as parts of the process.
func Start(p *parts.Parts, o Options) (*extproc.Server, error) {
	t := &troubles{}
	limits := o.Limits.open(p, t, o.Log)
	answers := o.Answers.open(p, t, o.Telemetry.Registry, o.Log)
	spool, err := openSpool(p, t, o)
	if err != nil {
		return nil, err
	}
	server := extproc.New(extproc.Options{
		XDS:        o.XDS,
		NodeID:     o.Node,
		Vendors:    all.Providers(),
		Logger:     o.Log.Named("extproc"),
		AccessLog:  telemetry.AccessLog(o.Log),
		Registerer: o.Telemetry.Registry,
		Meter:      o.Telemetry.Meter(),
		Tracer:     o.Telemetry.Tracer(),
		Limits:     limits,
		LimitsWait: o.Limits.Redis != nil,
		Answers:    answers,
		Spool:      spool,
		Ledger:     ledgerv1.NewLedgerClient(o.XDS),
		Keeper:     ledgerv1.NewBodiesClient(o.XDS),
		Peers:      o.connectPeers(p),
		Ending:     o.Ending,
		Bytes:      o.Bytes,
		Sessions:   places(o.Sessions),
		Shedding:   o.Memory.Shedding,
		MaxHeld:    maxHeld(o.Memory),
	})
	*t = append(*t, server.Trouble) // before it ships records
	p.Serve("ext_proc service", func(ctx context.Context) error { return server.Run(ctx, o.Listener, o.Grace) })
	return server, nil
}

// connectPeers returns nil if there are none.
func (o Options) connectPeers(p *parts.Parts) *peers.Peers {
	if o.Peers == nil {
		return nil
	}
	of := *o.Peers
	of.Registerer = o.Telemetry.Registry
	all := peers.Start(of)
	p.Add("connections to other ext_proc processes", func(context.Context) error { return all.Close() })
	return all
}

// troubles say what is wrong with the stores that processes share, each with "" if nothing is.
type troubles []func() string

// says returns what is wrong with all of them.
func (t *troubles) says() string {
	var all []string
	for _, trouble := range *t {
		if says := trouble(); says != "" {
			all = append(all, says)
		}
	}
	return strings.Join(all, " ")
}

// open returns what limits requests, and has it closed with p.
func (l Limits) open(p *parts.Parts, t *troubles, log *zap.Logger) limit.Limiter {
	if l.Redis == nil {
		return limit.Divide(limit.NewMemory(limit.Options{}), l.Division)
	}
	p.Add("connections to redis", func(context.Context) error { return l.Redis.Close() })
	limits := limit.NewRedis(l.Redis, limit.RedisOptions{
		Prefix: l.Prefix, FailOpen: l.FailOpen, Share: l.Share, Timeout: l.Timeout, Log: log.Named("limits"),
	})
	p.Add("limits", limits.Close)
	*t = append(*t, limits.Trouble)
	return limit.Divide(limits, l.Division)
}

// open returns the store of answers, and has it closed with p. It returns nil for one in memory.
func (a Answers) open(p *parts.Parts, t *troubles, r prometheus.Registerer, log *zap.Logger) *respcache.Redis {
	failures := prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_cache_store_failures_total",
		Help: "Answers that were not looked up, shared or kept, because the Redis of response caches was away."})
	r.MustRegister(failures)
	if a.Redis == nil {
		return nil
	}
	p.Add("connections to the redis of answers", func(context.Context) error { return a.Redis.Close() })
	store := respcache.NewRedis(a.Redis, respcache.RedisOptions{Prefix: a.Prefix, Timeout: a.Timeout,
		Failed: failures.Inc, Log: log.Named("cache")})
	p.Add("answers", store.Close)
	*t = append(*t, store.Trouble)
	return store
}

// openSpool opens the folder in which records wait for the ledger, and has it closed with p.
func openSpool(p *parts.Parts, t *troubles, o Options) (usage.Spool, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("--spool: naming who ships records: %w", err)
	}
	spool, err := usage.OpenSpool(usage.SpoolOptions{Dir: o.Spool, Process: host + ":" + o.Spool,
		MaxBytes: o.SpoolBytes, Stores: t.says, Log: o.Log.Named("spool"), Registerer: o.Telemetry.Registry})
	if err != nil {
		return nil, fmt.Errorf("--spool: %w", err)
	}
	p.Add("spool", func(context.Context) error { return spool.Close() })
	return spool, nil
}

// Bounds of what is held of bodies if the operator does not say: room for the largest answer, and what fits beside all
// else.
const (
	leastBodies = 96 << 20
	mostBodies  = 512 << 20
	bodyShare   = 8
)

// BoundBodies returns the bound of the bytes of bodies. A total of 0 stands for a share of the memory.
func BoundBodies(total int64, memory *memlimit.Watch) *inflight.Bytes {
	if total == 0 {
		total = mostBodies
		if limit := memory.Limit(); limit > 0 {
			total = min(max(limit/bodyShare, leastBodies), mostBodies)
		}
	}
	return inflight.New(total, total/2)
}

// places returns the bound of so many sessions; nil is none.
func places(sessions int) *turns.Places {
	if sessions == 0 {
		return nil
	}
	return turns.NewPlaces(sessions)
}

// leastMessages is room for the largest messages of Envoy.
const leastMessages = 256 << 20

// maxHeld returns the bound of what is held of Envoy's messages: half of the memory. 0 is the transport's own.
func maxHeld(memory *memlimit.Watch) int {
	if memory == nil || memory.Limit() == 0 {
		return 0
	}
	return int(min(max(memory.Limit()/2, leastMessages), 1<<30))
}
