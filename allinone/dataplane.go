package allinone

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/modelgate/modelgate/controlplane/firststart"
	"github.com/modelgate/modelgate/envoy/bootstrap"
	"github.com/modelgate/modelgate/envoy/process"
	extprocapp "github.com/modelgate/modelgate/extproc/app"
	"github.com/modelgate/modelgate/internal/atomicfile"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/datadir"
	"github.com/modelgate/modelgate/internal/proc"
)

// node is the name of each part at the control plane.
const node = "run"

func (g *gateway) startExtProc() error {
	var err error
	if g.xds, err = proc.ConnectControlPlane(g.parts, "unix://"+g.socket("xds"), insecure.NewCredentials()); err != nil {
		return err
	}
	l, err := proc.Listen("unix://" + g.socket("extproc"))
	if err != nil {
		return err
	}
	o := g.options.ExtProc
	o.Listener, o.XDS, o.Node, o.Grace, o.Spool = l, g.xds, node, extProcGrace, g.data.File(datadir.DirSpool)
	o.Memory, o.Bytes, o.Telemetry = g.memory, g.bytes, g.telemetry
	if g.extProc, err = extprocapp.Start(g.parts, o); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

func (g *gateway) startEnvoy(ctx context.Context) error {
	text, err := bootstrap.YAML(bootstrap.Options{
		NodeID:      node,
		AdminSocket: g.socket("envoy-admin"),
		ExtProc:     bootstrap.Addresses{{Pipe: g.socket("extproc")}},
		XDS:         bootstrap.Address{Pipe: g.socket("xds")},

		MaxHeapBytes: proc.EnvoyHeap(proc.EnvoyBesideGo),
	})
	if err != nil {
		return err
	}
	config := filepath.Join(g.sockets, "envoy.yaml")
	if err := atomicfile.Write(config, text, 0o600); err != nil {
		return err
	}
	g.envoy, err = process.Start(ctx, process.Options{
		Binary:      g.options.Envoy,
		Config:      config,
		AdminSocket: g.socket("envoy-admin"),
		Concurrency: g.options.Concurrency,
		Log:         g.log.Named(process.Logger),
		Restarted: func(ctx context.Context) {
			if _, err := g.publish(ctx); err != nil {
				g.log.Error("the gateway's address is unknown since the restart of envoy", zap.Error(err))
			}
		},
	})
	if err != nil {
		return err
	}
	g.parts.Add("envoy", func(ctx context.Context) error { g.envoy.Stop(ctx, g.options.Grace); return nil })
	return nil
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

// announce waits until the gateway serves and reports how it is used.
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
	return g.options.Started(Started{URL: base, Admin: g.adminURL, CA: g.data.File(certs.FileCA),
		Key: g.data.File(datadir.FileKey), SignIn: first})
}
