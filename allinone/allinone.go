// Package allinone is a gateway on one machine: etcd, the control plane, the ext_proc service, the job service, the
// built-in provider and Envoy, assembled in one process.
//
// The order of the parts matters in both directions. Each finds what it needs when it starts, and what uses another
// ends before it.
package allinone

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	controlapp "github.com/modelgate/modelgate/controlplane/app"
	"github.com/modelgate/modelgate/controlplane/dashboard"
	"github.com/modelgate/modelgate/controlplane/firststart"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/extproc"
	extprocapp "github.com/modelgate/modelgate/extproc/app"
	"github.com/modelgate/modelgate/internal/datadir"
	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/fakeprovider"
	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/internal/memlimit"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/proc"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/jobsvc"
	jobsapp "github.com/modelgate/modelgate/jobsvc/app"
)

// Options are the settings of a gateway.
type Options struct {
	Data      *datadir.Dir
	Listen    netip.AddrPort // address of the gateway
	Admin     string         // address of the admin API
	Objects   []configv1.Object
	Refused   func(error) error // says that the objects were refused
	EtcdQuota int64             // in bytes

	Envoy       string        // path of its binary; empty: it is looked for
	Concurrency int           // worker threads of Envoy; 0: one for each core
	Grace       time.Duration // during which running requests may continue when it ends
	BodyBytes   int64         // of bodies in memory; 0: a share of the memory

	// Of each part, only what is its own: where the parts are, and what they share, is added here.
	ControlPlane controlapp.Options
	ExtProc      extprocapp.Options
	Jobs         jobsapp.Options

	Started func(Started) error // is called when the gateway serves
	Log     *zap.Logger
}

// Started says how a gateway is used that has started.
type Started struct {
	URL     string // without /v1
	Admin   string // URL of the admin API
	CA, Key string // paths of the certificate authority and the first key
	SignIn  string // where the first person signs in to the dashboard; empty: somebody can
}

const (
	// readyTimeout is how long Envoy may take until its listener is bound.
	readyTimeout = 60 * time.Second
	// extProcGrace is how long the ext_proc service may take to end; Envoy, its only client, is gone by then.
	extProcGrace = 2 * time.Second
	// repairTime is how long the start tries to make room in an etcd that is full.
	repairTime = 20 * time.Second
)

// Run runs the gateway until ctx ends, and then stops its parts in reverse order. A signal that comes while they are
// being stopped stops what is left at once.
func Run(ctx context.Context, o Options) (err error) {
	sockets, remove, err := process.SocketDir(o.Data.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()

	g := &gateway{
		options: o, data: o.Data, sockets: sockets, log: o.Log,
		parts: parts.New(o.Log), etcdLevel: zap.NewAtomicLevelAt(proc.EtcdQuiet),
	}
	if err = g.start(ctx); err == nil {
		err = g.parts.Wait(ctx)
	} else if ctx.Err() != nil { // a step that is interrupted may call it by another name
		o.Log.Info("stopped while it was starting", zap.Error(err))
		err = nil
	}
	atOnce, cancel := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if ctx.Err() != nil {
		o.Log.Info("stopping", zap.Duration("grace", o.Grace))
	}
	g.etcdLevel.SetLevel(proc.EtcdQuiet)
	return errors.Join(err, g.parts.Stop(atOnce))
}

// A gateway is one that is being started or runs.
type gateway struct {
	options   Options
	data      *datadir.Dir
	sockets   string
	log       *zap.Logger
	parts     *parts.Parts
	telemetry *telemetry.Telemetry
	memory    *memlimit.Watch
	bytes     *inflight.Bytes // of bodies

	etcdLevel    zap.AtomicLevel
	etcd         *clientv3.Client
	room         *etcdspace.Room
	controlPlane *controlapp.ControlPlane
	ledger       *ledger.Ledger
	adminURL     string
	hosts        []string // that the development certificate is for
	first        *firststart.Options
	xds          *grpc.ClientConn // to the control plane
	extProc      *extproc.Server
	jobs         *jobsvc.Server         // nil if it cannot start
	jobsTrouble  atomic.Pointer[string] // why there is no job service
	envoy        *process.Process
	dashboard    *dashboard.Dashboard
	base         atomic.Pointer[string] // URL of the gateway, once Envoy listens
	serving      atomic.Bool            // everything above is set and does not change any more
}

// start starts the parts, in an order in which each finds what it needs, and returns when the gateway serves.
func (g *gateway) start(ctx context.Context) error {
	var err error
	if g.telemetry, err = proc.StartTelemetry(ctx, g.parts, "modelgate", g.log); err != nil {
		return err
	}
	g.memory = proc.StartMemory(g.parts, proc.GoBesideEnvoy, g.telemetry, g.log)
	g.bytes = extprocapp.BoundBodies(g.options.BodyBytes, g.memory)
	if g.options.Envoy, err = process.Find(ctx, g.options.Envoy); err != nil {
		return err
	}
	etcdLog := g.log.Named("etcd").WithOptions(zap.IncreaseLevel(g.etcdLevel))
	g.etcd, err = proc.StartEtcd(ctx, g.parts, g.data.File(datadir.DirEtcd), g.sockets, g.options.EtcdQuota, etcdLog)
	if err != nil {
		return err
	}
	if err := g.startRoom(ctx); err != nil {
		return err
	}
	api, err := g.startAdmin(ctx)
	if err != nil {
		return err
	}
	// The control plane starts with the configuration complete: what it serves first is what makes the others ready.
	if err := g.configure(ctx, api); err != nil {
		return err
	}
	g.controlPlane.Start(g.parts)
	if err := g.startExtProc(); err != nil {
		return err
	}
	echo, err := proc.Listen("unix://" + g.socket("echo"))
	if err != nil {
		return err
	}
	fakeprovider.Start(g.parts, echo, g.log)
	if err := g.startJobs(ctx); err != nil {
		return err
	}
	if err := g.startEnvoy(ctx); err != nil {
		return err
	}
	// They ask providers through Envoy, and so end before it.
	if g.jobs != nil {
		g.parts.Serve("job workers", g.runJobs)
	}
	return g.announce(ctx)
}

// configure stores what the gateway starts with.
func (g *gateway) configure(ctx context.Context, api *adminapi.Client) error {
	g.first = &firststart.Options{
		API: api, Address: g.options.Listen, Echo: "unix://" + g.socket("echo"), Jobs: "unix://" + g.socket("jobs"),
		Internal: "unix://" + g.socket("internal"), Data: g.data.Path, Hosts: g.hosts,
		KeyFile: g.data.File(datadir.FileKey), Vendors: all.Providers(), Allowed: g.options.ControlPlane.Allowed,
		Objects: g.options.Objects, Refused: g.options.Refused, Log: g.log,
	}
	return g.first.ConfigureOrDefer(ctx, g.parts)
}

func (g *gateway) socket(name string) string { return filepath.Join(g.sockets, name+".sock") }

// startRoom has etcd's room followed and kept. If etcd is full it makes room first, if it can: what is written
// at the start can be written then.
func (g *gateway) startRoom(ctx context.Context) error {
	var err error
	if g.room, err = proc.NewRoom(g.etcd, g.telemetry, g.log); err != nil {
		return err
	}
	keeper := etcdspace.NewKeeper(g.room, etcdspace.KeeperOptions{
		Compact: true, Defragment: true, Now: time.Now, Log: g.log.Named("etcd-room"),
	})
	repairing, cancel := context.WithTimeout(ctx, repairTime)
	defer cancel()
	if err := keeper.Repair(repairing); err != nil && ctx.Err() == nil {
		g.log.Warn("reading the state of etcd's space failed", zap.Error(err))
	}
	proc.FollowRoom(g.parts, g.room, keeper.Step)
	return nil
}

// ready reports why the gateway does not serve, or nil.
func (g *gateway) ready() error {
	if !g.serving.Load() {
		return errors.New("starting")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return proc.AllReady(g.controlPlane.Ready, g.extProc.Ready, g.jobsReady,
		func() error { return g.envoy.Admin().Ready(ctx) })()
}
