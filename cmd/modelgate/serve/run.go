// Package serve has the commands that are processes of a gateway: run, controlplane, extproc, jobsvc and envoy, and
// install and echo.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/controlplane"
	controlapp "github.com/modelgate/modelgate/controlplane/app"
	"github.com/modelgate/modelgate/controlplane/dashboard"
	"github.com/modelgate/modelgate/controlplane/firststart"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/secretstore"
	"github.com/modelgate/modelgate/envoy/bootstrap"
	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/extproc"
	extprocapp "github.com/modelgate/modelgate/extproc/app"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/atomicfile"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/datadir"
	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/internal/memlimit"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/proc"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/jobsvc"
	jobsapp "github.com/modelgate/modelgate/jobsvc/app"
)

const (
	// readyTimeout is how long Envoy may take until its listener is bound.
	readyTimeout = 60 * time.Second
	// extProcGrace is how long the ext_proc service may take to end; Envoy, its only client, is gone by then.
	extProcGrace = 2 * time.Second
)

// RunCmd is the command run.
type RunCmd struct {
	Data        string        `default:"data" help:"Folder for all data of the gateway."`
	Listen      string        `default:"127.0.0.1:8443" help:"Address of the gateway. Port 0: any free port."`
	Admin       string        `default:"127.0.0.1:8081" help:"${admin}"`
	Config      []string      `sep:"none" placeholder:"FILE" help:"YAML file of objects to apply at the start. May be given more than once."`
	Envoy       string        `placeholder:"PATH" help:"${binary}"`
	Grace       time.Duration `default:"30s" help:"${grace}"`
	Concurrency int           `default:"0" help:"${workers}"`

	EtcdQuota int64 `default:"2147483648" placeholder:"BYTES" help:"Maximum size of the embedded etcd database in bytes. Above 8 GB, etcd starts slowly."`

	Limits      limitStoreFlags `embed:""`
	Answers     answerFlags     `embed:""`
	Jobs        jobFlags        `embed:""`
	Credentials credentialFlags `embed:""`
	Alerts      alertFlags      `embed:""`
	Trace       traceFlags      `embed:""`
	Held        heldFlags       `embed:""`
}

// Run runs the gateway until ctx ends, and then stops its parts in reverse order. A signal that comes while they are
// being stopped stops what is left at once.
func (c *RunCmd) Run(ctx context.Context, stdout io.Writer, log *zap.Logger) (err error) {
	if err := c.Trace.check(); err != nil {
		return err
	}
	data, err := datadir.Open(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	sockets, remove, err := process.SocketDir(data.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()

	g := &gateway{
		RunCmd: c, data: data, sockets: sockets, log: log, stdout: stdout,
		parts: parts.New(log), etcdLevel: zap.NewAtomicLevelAt(proc.EtcdQuiet),
	}
	if err = g.start(ctx); err == nil {
		err = g.parts.Wait(ctx)
	} else if ctx.Err() != nil { // a step that is interrupted may call it by another name
		log.Info("stopped while it was starting", zap.Error(err))
		err = nil
	}
	atOnce, cancel := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if ctx.Err() != nil {
		log.Info("stopping", zap.Duration("grace", c.Grace))
	}
	g.etcdLevel.SetLevel(proc.EtcdQuiet)
	return errors.Join(err, g.parts.Stop(atOnce))
}

// A gateway is what one run command starts.
type gateway struct {
	*RunCmd
	data      *datadir.Dir
	sockets   string
	log       *zap.Logger
	stdout    io.Writer
	parts     *parts.Parts
	telemetry *telemetry.Telemetry
	memory    *memlimit.Watch
	bytes     *inflight.Bytes // of bodies

	etcdLevel    zap.AtomicLevel
	objects      []configv1.Object     // of --config
	mayName      *allowed.List         // what objects may name
	vault        *secretstore.Follower // nil: there is none
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
	// What an operator can get wrong is found before anything runs.
	var err error
	if g.telemetry, err = proc.StartTelemetry(ctx, g.parts, "modelgate", g.log); err != nil {
		return err
	}
	if err := g.readCredentialFlags(); err != nil {
		return err
	}
	g.memory = startMemory(g.parts, goBesideEnvoy, g.telemetry, g.log)
	g.bytes = extprocapp.BoundBodies(g.Held.BodyBytes, g.memory)
	binary, err := process.Find(ctx, g.Envoy)
	if err != nil {
		return err
	}
	at, err := gatewayAddress(g.Listen)
	if err != nil {
		return err
	}
	etcdLog := g.log.Named("etcd").WithOptions(zap.IncreaseLevel(g.etcdLevel))
	if g.objects, err = configObjects(g.Config); err != nil {
		return err
	}
	g.etcd, err = proc.StartEtcd(ctx, g.parts, g.data.File(datadir.DirEtcd), g.sockets, g.EtcdQuota, etcdLog)
	if err != nil {
		return err
	}
	if err := g.startRoom(ctx); err != nil {
		return err
	}
	api, err := g.startAdmin(ctx, at.Addr())
	if err != nil {
		return err
	}
	// The control plane starts with the configuration complete: what it serves first is what makes the others ready.
	if err := g.configure(ctx, at, api); err != nil {
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
	startEcho(g.parts, echo, g.log)
	if err := g.startJobs(ctx); err != nil {
		return err
	}
	if err := g.startEnvoy(ctx, binary); err != nil {
		return err
	}
	// They ask providers through Envoy, and so end before it.
	if g.jobs != nil {
		g.parts.Serve("job workers", g.runJobs)
	}
	return g.announce(ctx)
}

// configure stores what the gateway starts with.
func (g *gateway) configure(ctx context.Context, at netip.AddrPort, api *adminapi.Client) error {
	g.first = &firststart.Options{
		API: api, Address: at, Echo: "unix://" + g.socket("echo"), Jobs: "unix://" + g.socket("jobs"),
		Internal: "unix://" + g.socket("internal"), Data: g.data.Path, Hosts: g.hosts,
		KeyFile: g.data.File(datadir.FileKey), Vendors: all.Providers(), Allowed: g.mayName, Objects: g.objects,
		Refused: func(err error) error { return fmt.Errorf("applying --config: %w", admincli.Said(err)) }, Log: g.log,
	}
	return g.first.ConfigureOrDefer(ctx, g.parts)
}

// readCredentialFlags sets what objects may name, and what reads secrets from Vault.
func (g *gateway) readCredentialFlags() (err error) {
	if g.mayName, err = g.Credentials.allowed(); err == nil {
		g.vault, err = g.Credentials.Vault.follower(g.log)
	}
	return err
}

func (g *gateway) socket(name string) string { return filepath.Join(g.sockets, name+".sock") }

// startAdmin prepares the control plane, starts the admin address and returns a client of its API.
func (g *gateway) startAdmin(ctx context.Context, gatewayHost netip.Addr) (*adminapi.Client, error) {
	root, err := controlapp.LoadRoot(ctx, g.data.File(datadir.FilePepper), g.etcd)
	if err != nil {
		return nil, err
	}
	token, err := controlapp.LoadAdminToken(g.data.File(datadir.FileAdminToken))
	if err != nil {
		return nil, err
	}
	xds, err := proc.Listen("unix://" + g.socket("xds"))
	if err != nil {
		return nil, err
	}
	if g.ledger, err = controlapp.OpenLedger(ctx, g.parts, datadir.Ledger(g.data.Path), g.log); err != nil {
		return nil, errors.Join(err, xds.Close())
	}
	blobs, err := controlapp.OpenArchive(ctx, g.parts, g.blobs())
	if err != nil { // the job service will say so; the rest goes on
		g.log.Warn("the archive of jobs cannot be opened; only those in etcd are listed", zap.Error(err))
	}
	g.controlPlane, err = newControlPlane(controlapp.Options{
		Etcd: g.etcd, XDS: xds, SystemCA: controlplane.SystemCA(), Root: root, AdminToken: token, Ledger: g.ledger,
		Blobs: blobs, Memory: g.memory, Log: g.log, Telemetry: g.telemetry, Allowed: g.mayName, Vault: g.vault,
		Managers: g.Credentials.managers(g.log), AlertNetworks: g.Alerts.AlertNetwork, TraceURL: g.Trace.TraceURL,
	})
	if err != nil {
		return nil, errors.Join(err, xds.Close())
	}
	if err := g.controlPlane.Claim(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w: restore the file that belongs to %s", g.data.File(datadir.FilePepper), err,
			g.data.File(datadir.DirEtcd))
	}
	admin, err := proc.Listen(g.Admin)
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	at, err := netip.ParseAddrPort(admin.Addr().String())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the admin address: %w", err), admin.Close())
	}
	server, client, err := g.adminTLS(gatewayHost, at.Addr())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the certificate: %w", err), admin.Close())
	}
	g.adminURL = "https://" + proc.Reachable(at)
	pages, board := g.controlPlane.WithDashboard(g.adminURL, func() (string, http.RoundTripper) {
		return g.baseURL(), client.Transport
	})
	g.dashboard = board
	mux := proc.HealthHandler(g.ready, g.telemetry, proc.NoteOf(g.room), g.jobsNote,
		noteOfLedger(g.ledger), noteOfMemory(g.memory), noteOfBodies(g.bytes))
	mux.Handle("/", pages)
	proc.ServeHTTP(g.parts, admin, server, mux, g.log)
	return adminapi.NewClient(g.adminURL, token.Reveal(), client), g.data.Write(datadir.FileAdmin, g.adminURL)
}

func (g *gateway) startExtProc() error {
	var err error
	if g.xds, err = (xdsFlags{Address: "unix://" + g.socket("xds")}).connect(g.parts, g.log); err != nil {
		return err
	}
	l, err := proc.Listen("unix://" + g.socket("extproc"))
	if err != nil {
		return err
	}
	g.extProc, err = startExtProc(g.parts, g.Limits, g.Answers, extprocapp.Options{
		Listener: l, XDS: g.xds, Node: "run", Grace: extProcGrace, Spool: g.data.File(datadir.DirSpool),
		Memory: g.memory, Bytes: g.bytes, Sessions: g.Held.Sessions, Log: g.log, Telemetry: g.telemetry,
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// blobs returns the address of the blob store.
func (g *gateway) blobs() string {
	if g.Jobs.Blobs != "" {
		return g.Jobs.Blobs
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(g.data.File(datadir.DirBlobs))}).String()
}

func (g *gateway) startJobs(ctx context.Context) (err error) {
	flags := g.Jobs
	flags.Blobs = g.blobs()
	l, err := proc.Listen("unix://" + g.socket("jobs"))
	if err != nil {
		return err
	}
	g.jobs, err = flags.startJobs(ctx, g.parts, jobsapp.Options{
		Listener: l, Gateway: "unix://" + g.socket("internal"), Etcd: g.etcd, XDS: g.xds, Node: "run",
		Memory: g.memory, Log: g.log, Telemetry: g.telemetry, Ending: &parts.Ending{}, Gate: g.jobsGate, Room: g.room,
	})
	if err != nil {
		g.jobsAway(fmt.Errorf("%s cannot be used: %w", flags.Blobs, err))
		return l.Close()
	}
	return nil
}

func (g *gateway) startEnvoy(ctx context.Context, binary string) error {
	text, err := bootstrap.YAML(bootstrap.Options{
		NodeID:      "run",
		AdminSocket: g.socket("envoy-admin"),
		ExtProc:     bootstrap.Address{Pipe: g.socket("extproc")},
		XDS:         bootstrap.Address{Pipe: g.socket("xds")},

		MaxHeapBytes: envoyHeap(envoyBesideGo),
	})
	if err != nil {
		return err
	}
	config := filepath.Join(g.sockets, "envoy.yaml")
	if err := atomicfile.Write(config, text, 0o600); err != nil {
		return err
	}
	g.envoy, err = process.Start(ctx, process.Options{
		Binary:      binary,
		Config:      config,
		AdminSocket: g.socket("envoy-admin"),
		Concurrency: g.Concurrency,
		Log:         g.log.Named("envoy"),
		Restarted: func(ctx context.Context) {
			if _, err := g.publish(ctx); err != nil {
				g.log.Error("the gateway's address is unknown since the restart of envoy", zap.Error(err))
			}
		},
	})
	if err != nil {
		return err
	}
	g.parts.Add("envoy", func(ctx context.Context) error { g.envoy.Stop(ctx, g.Grace); return nil })
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

// publish waits until Envoy listens and writes where.
func (g *gateway) publish(ctx context.Context) (base string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	bound, err := g.envoy.AwaitListener(ctx, firststart.Listener)
	if err != nil {
		return "", fmt.Errorf("the gateway does not listen, envoy's log says why: %w", err)
	}
	base = "https://" + proc.Reachable(bound)
	g.base.Store(&base)
	return base, g.data.Write(datadir.FileURL, base)
}

// baseURL is where the gateway is; empty until Envoy listens.
func (g *gateway) baseURL() string {
	if base := g.base.Load(); base != nil {
		return *base
	}
	return ""
}

// awaitExtProc waits until the ext_proc service has its configuration. Nothing tells that it has come.
func (g *gateway) awaitExtProc(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := g.extProc.Ready()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("the ext_proc service is not ready: %w: %w", ctx.Err(), err)
		}
	}
}

// announce waits until the gateway serves and says how it is used.
func (g *gateway) announce(ctx context.Context) error {
	if err := g.awaitExtProc(ctx); err != nil {
		return err
	}
	base, err := g.publish(ctx)
	if err != nil {
		return err
	}
	first, err := g.dashboard.FirstLink(ctx)
	if err != nil && !errors.Is(err, rpctypes.ErrNoSpace) { // a full etcd keeps nobody from serving
		return err
	}
	if err := g.first.CheckKey(g.extProc.Knows); err != nil {
		return err
	}
	g.serving.Store(true)
	g.etcdLevel.SetLevel(zapcore.WarnLevel)
	ca, key := admincli.ShellQuote(g.data.File(certs.FileCA)), admincli.ShellQuote(g.data.File(datadir.FileKey))
	_, err = fmt.Fprintf(g.stdout, `
Modelgate

  Base URL   %[1]s/v1
  Admin      %[2]s
  CA         %[3]s
  Key        %[4]s
%[5]s
Try it:

  curl --cacert %[3]s %[1]s/v1/chat/completions \
    -H "Authorization: Bearer $(cat %[4]s)" -H "Content-Type: application/json" \
    -d '{"model": "echo/echo", "messages": [{"role": "user", "content": "Hello"}]}'

ready
`, base, g.adminURL, ca, key, signIn(first))
	return err
}

// signIn says how the first person signs in to the dashboard; nothing where somebody can.
func signIn(link string) string {
	if link == "" {
		return ""
	}
	return "  Sign in    " + link + "  (once)\n"
}
