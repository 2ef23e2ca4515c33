package serve

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"go.uber.org/zap"
	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/controlplane/app"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/proc"
)

// openNamedLedger opens the ledger that a flag names: if that cannot be a file, the flag is wrong.
func openNamedLedger(ctx context.Context, p *parts.Parts, dsn string, blobs *blob.Bucket,
	log *zap.Logger) (*ledger.Ledger, error) {
	l, err := app.OpenLedger(ctx, p, dsn, blobs, log)
	if mistake, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, admincli.Misused("--ledger: %w", mistake)
	}
	return l, err
}

// playground returns where the dashboard's playground asks.
func (c *ControlplaneCmd) playground(log *zap.Logger) (app.Playground, error) {
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
