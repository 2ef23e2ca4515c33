package serve

import (
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/modelgate/modelgate/envoy/bootstrap"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/proc"
)

// xdsFlags say where a client of the control plane finds it. With mutual TLS the client shows that it may have what it
// asks for: keys' hashes and credentials are in it.
type xdsFlags struct {
	Address string `default:"unix:///run/modelgate/xds.sock" env:"MODELGATE_XDS" help:"Address of the control plane's xDS server: unix:///path or host:port."`
	CA      string `help:"PEM file of the CA certificates that verify the control plane. If it is set, the connection uses mutual TLS. The process reloads it and the certificate after a renewal."`
	Cert    string `help:"PEM file of this client's certificate."`
	Key     string `help:"PEM file of this client's private key."`
	Name    string `help:"DNS name in the control plane's certificate. Default: the host of the address."`
}

func (f xdsFlags) serverName(host string) string {
	if f.Name != "" {
		return f.Name
	}
	return host
}

// connect returns a connection to the control plane that ends with p.
func (f xdsFlags) connect(p *parts.Parts, log *zap.Logger) (*grpc.ClientConn, error) {
	address, err := bootstrap.ParseAddress(f.Address)
	if err != nil {
		return nil, err
	}
	secure := insecure.NewCredentials()
	files, err := readMutualTLS(log, "--xds-", f.Cert, f.Key, f.CA)
	if err != nil {
		return nil, err
	}
	if files != nil {
		secure = credentials.NewTLS(files.Client(f.serverName(address.Host)))
	}
	return proc.ConnectControlPlane(p, f.Address, secure)
}
