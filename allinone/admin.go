package allinone

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane"
	controlapp "github.com/modelgate/modelgate/controlplane/app"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/datadir"
	"github.com/modelgate/modelgate/internal/proc"
	"github.com/modelgate/modelgate/jobsvc"
)

// startAdmin prepares the control plane, starts the admin address and returns a client of its API.
func (g *gateway) startAdmin(ctx context.Context) (*adminapi.Client, error) {
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
	blobs, err := controlapp.OpenArchive(ctx, g.parts, g.blobs())
	if err != nil { // the job service will say so; the rest goes on
		g.log.Warn("the archive of jobs and of requests cannot be opened; only those in etcd and in the ledger are listed",
			zap.Error(err))
	}
	if g.ledger, err = controlapp.OpenLedger(ctx, g.parts, datadir.Ledger(g.data.Path), blobs, g.log); err != nil {
		return nil, errors.Join(err, xds.Close())
	}
	o := g.options.ControlPlane
	o.Etcd, o.XDS, o.SystemCA, o.Root, o.AdminToken = g.etcd, xds, controlplane.SystemCA(), root, token
	o.Ledger, o.Blobs, o.Jobs = g.ledger, blobs, jobsvc.NewInspector(g.etcd, blobs)
	o.Memory, o.Telemetry, o.Log = g.memory, g.telemetry, g.log
	g.controlPlane, err = controlapp.New(o)
	if err != nil {
		return nil, errors.Join(err, xds.Close())
	}
	if err := g.controlPlane.Claim(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w: restore the file that belongs to %s", g.data.File(datadir.FilePepper), err,
			g.data.File(datadir.DirEtcd))
	}
	admin, err := proc.Listen(g.options.Admin)
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	at, err := netip.ParseAddrPort(admin.Addr().String())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the admin address: %w", err), admin.Close())
	}
	server, client, err := g.adminTLS(g.options.Listen.Addr(), at.Addr())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the certificate: %w", err), admin.Close())
	}
	g.adminURL = "https://" + proc.Reachable(at)
	pages, board := g.controlPlane.WithDashboard(g.adminURL, func() (string, http.RoundTripper) {
		return g.baseURL(), client.Transport
	})
	g.dashboard = board
	mux := proc.HealthHandler(g.ready, g.telemetry, proc.NoteOf(g.room), g.jobsNote,
		proc.NoteUnless(adminapi.SaysNoLedger, g.ledger.Ready), proc.NoteOfMemory(g.memory), proc.NoteOfBodies(g.bytes))
	mux.Handle("/", pages)
	proc.ServeHTTP(g.parts, admin, server, mux, g.log)
	return adminapi.NewClient(g.adminURL, token.Reveal(), client), g.data.Write(datadir.FileAdmin, g.adminURL)
}

// adminTLS returns the TLS of the admin address, which shows the development certificate, and a client that trusts it.
func (g *gateway) adminTLS(addresses ...netip.Addr) (*tls.Config, *http.Client, error) {
	for _, a := range addresses {
		host := a.String()
		if a.IsUnspecified() {
			host = proc.Hostname()
		}
		g.hosts = append(g.hosts, host)
	}
	pair, err := certs.Ensure(g.data.Path, g.hosts, time.Now())
	if err != nil {
		return nil, nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		return nil, nil, err
	}
	authorities, err := proc.ReadAuthorities(g.data.File(certs.FileCA))
	if err != nil {
		return nil, nil, err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12,
		RootCAs: authorities}}}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}, client, nil
}
