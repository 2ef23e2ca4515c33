package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/cmd/modelgate/proc"
	"github.com/modelgate/modelgate/controlplane/bodies"
	"github.com/modelgate/modelgate/controlplane/dashboard"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/scim"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// openLedger opens the ledger, and has p close it.
func openLedger(ctx context.Context, p *proc.Parts, dsn string, log *zap.Logger) (*ledger.Ledger, error) {
	l, err := ledger.Open(ctx, dsn, log.Named("ledger"))
	if err != nil {
		return nil, err
	}
	p.Add("ledger", func(context.Context) error { return l.Close() })
	return l, nil
}

// maintainLedger prunes the ledger as the configuration says.
func (c *controlPlane) maintainLedger(ctx context.Context) error {
	c.options.ledger.Maintain(ctx, retentionIn(c.store))
	return ctx.Err()
}

// retentionIn reads how long the ledger keeps what from the configuration.
func retentionIn(store *configstore.Store) func(context.Context) (ledger.Retention, error) {
	return func(ctx context.Context) (ledger.Retention, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		entries, err := store.List(ctx, configv1.KindOf((*configv1.Retention)(nil)))
		if err != nil {
			return ledger.Retention{}, err
		}
		var said *configv1.Retention
		for _, e := range entries {
			if e.Err != nil {
				return ledger.Retention{}, fmt.Errorf("the Retention cannot be read: %w", e.Err)
			}
			said, _ = e.Object.(*configv1.Retention)
		}
		return ledger.Retention{Exchanges: said.KeepRequests(), Refused: said.KeepRefused(), Aggregates: said.KeepUsage(),
			Audit: said.KeepAudit()}, nil
	}
}

// openNamedLedger is openLedger for one that a flag names: where that cannot be a file, the flag is wrong.
func openNamedLedger(ctx context.Context, p *proc.Parts, dsn string, log *zap.Logger) (*ledger.Ledger, error) {
	l, err := openLedger(ctx, p, dsn, log)
	if err != nil {
		return nil, err
	}
	if mistake, ok := errors.AsType[*fs.PathError](l.Ready()); ok {
		return nil, admincli.Misused("--ledger: %w", mistake)
	}
	return l, nil
}

// noteOfLedger is why the ledger cannot be used.
func noteOfLedger(l *ledger.Ledger) proc.Note {
	return func() (string, bool) {
		if err := l.Ready(); err != nil {
			return admincli.SaysNoLedger + err.Error(), true
		}
		return "", false
	}
}

// serveLedger returns what adds the ledger and the store of bodies to the server of xDS.
func serveLedger(l *ledger.Ledger, kept *bodies.Store) func(*grpc.Server) {
	return func(s *grpc.Server) {
		ledgerv1.RegisterLedgerServer(s, ledger.NewService(l))
		ledgerv1.RegisterBodiesServer(s, kept)
	}
}

// withDashboard adds the dashboard, which people reach at base, to the admin API. The gateway is where the playground
// asks.
func (c *controlPlane) withDashboard(base string, gateway playground) (http.Handler, *dashboard.Dashboard) {
	var names []string
	for name := range cmdline.Vendors() {
		names = append(names, name)
	}
	slices.Sort(names)
	d := dashboard.New(dashboard.Config{
		API: c.admin, Etcd: c.options.etcd, Accounts: dashboard.AccountsOf(c.store),
		Identity: c.people,
		Audit:    c.audit.Audit, Gateway: gateway,
		RootToken: c.options.adminToken, BaseURL: base, TraceURL: c.options.traceURL, Vendors: names,
		Log: c.options.log.Named("dashboard"),
	})
	mux := http.NewServeMux()
	mux.Handle("/admin/v1/", c.admin)
	mux.Handle("/v1/organization/", c.admin)
	mux.Handle(scim.Path, c.admin)
	mux.Handle("/", d)
	return httpapi.Spare(c.options.memory.Shedding, isExport, mux), d
}

// A playground returns where the dashboard's playground asks, and how.
type playground func() (url string, transport http.RoundTripper)

// playground returns where the dashboard's playground asks.
func (c *ControlplaneCmd) playground(log *zap.Logger) (playground, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	if c.GatewayCA != "" {
		gateway, err := url.Parse(c.GatewayURL)
		if err != nil {
			return nil, admincli.Misused("--gateway-url: %w", err)
		}
		authorities, err := proc.FollowAuthorities(log, c.GatewayCA)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = proc.Trusting(authorities, gateway.Hostname())
	}
	return func() (string, http.RoundTripper) { return c.GatewayURL, transport }, nil
}

// urlOf is the URL of an address, as it is reached from this machine or through a tunnel to it.
func urlOf(a net.Addr, secure bool) string {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return scheme + "://localhost:" + strconv.Itoa(tcp.Port)
	}
	return scheme + "://" + a.String()
}
