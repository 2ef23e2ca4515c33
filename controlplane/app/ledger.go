package app

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"gocloud.dev/blob"
	"google.golang.org/grpc"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/bodies"
	"github.com/modelgate/modelgate/controlplane/dashboard"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/providers"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/scim"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/provider/all"
)

// OpenLedger opens the ledger, which keeps the request log in a blob store if there is one, and has p close it.
func OpenLedger(ctx context.Context, p *parts.Parts, dsn string, blobs *blob.Bucket,
	log *zap.Logger) (*ledger.Ledger, error) {
	l, err := ledger.Open(ctx, dsn, log.Named("ledger"))
	if err != nil {
		return nil, err
	}
	l.Use(blobs)
	p.Add("ledger", func(context.Context) error { return l.Close() })
	return l, nil
}

// maintainLedger prunes the ledger as the configuration says.
func (c *ControlPlane) maintainLedger(ctx context.Context) error {
	c.options.Ledger.Maintain(ctx, retentionIn(c.store))
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

// OpenArchive opens a blob store, in which jobs are archived or requests or bodies are kept, or returns nil if it is
// not said.
func OpenArchive(ctx context.Context, p *parts.Parts, address string) (*blob.Bucket, error) {
	if address == "" {
		return nil, nil
	}
	bucket, err := blobstore.Open(ctx, address)
	if err != nil {
		return nil, err
	}
	p.Add("archive", func(context.Context) error { return bucket.Close() })
	return bucket, nil
}

// serveLedger returns what adds the ledger and the store of bodies to the server of xDS.
func serveLedger(l *ledger.Ledger, kept *bodies.Store) func(*grpc.Server) {
	return func(s *grpc.Server) {
		ledgerv1.RegisterLedgerServer(s, ledger.NewService(l))
		ledgerv1.RegisterBodiesServer(s, kept)
	}
}

// WithDashboard adds the dashboard, which people reach at base, to the admin API. The gateway is where the playground
// asks.
func (c *ControlPlane) WithDashboard(base string, gateway Playground) (http.Handler, *dashboard.Dashboard) {
	d := dashboard.New(dashboard.Config{
		API: c.admin, Etcd: c.options.Etcd, Accounts: dashboard.AccountsOf(c.store),
		Identity: c.people,
		Audit:    c.audit.Audit, Gateway: gateway,
		RootToken: c.options.AdminToken, BaseURL: base, TraceURL: c.options.TraceURL,
		Vendors: vendors(),
		Log:     c.options.Log.Named("dashboard"),
	})
	mux := http.NewServeMux()
	mux.Handle("/admin/v1/", c.admin)
	mux.Handle("/v1/organization/", c.admin)
	mux.Handle(scim.Path, c.admin)
	mux.Handle("/", d)
	return httpapi.Spare(c.options.Memory.Shedding, isExport, mux), d
}

// vendors returns what the dashboard asks for of a provider of each vendor.
func vendors() []providers.Vendor {
	var list []providers.Vendor
	for _, p := range all.Providers() {
		list = append(list, providers.Vendor{Name: p.Name, Endpoint: p.DefaultEndpoint,
			NeedsEndpoint: p.DefaultEndpoint == "" && p.BaseURL == nil, Fields: p.Fields, Variable: p.CredentialEnv,
			Cloud: p.Cloud, Lists: p.Models != nil})
	}
	slices.SortFunc(list, func(a, b providers.Vendor) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// A Playground returns where the dashboard's playground asks, and how.
type Playground func() (url string, transport http.RoundTripper)

// isExport reports whether a request to the control plane is for a table, which is made in memory.
func isExport(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, ".csv") || r.URL.Query().Get("format") == "csv" ||
		strings.Contains(r.Header.Get("Accept"), "text/csv")
}
