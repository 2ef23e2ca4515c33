package serve

import (
	"cmp"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/controlplane/envoygateway"
	"github.com/modelgate/modelgate/envoy/bootstrap"
)

// envoyGatewayFlags say whether the control plane is an extension server of Envoy Gateway, and how the Envoys of that
// reach the ext_proc service.
type envoyGatewayFlags struct {
	Extproc string             `placeholder:"ADDRESS" help:"Be an extension server of Envoy Gateway, at the address of the xDS server: rules of HTTPRoutes with the name modelgate lead to models. ADDRESS is that of the ext_proc service for the Envoys of Envoy Gateway: host:port, or several with commas. In Kubernetes this also needs --kubernetes."`
	TLS     extprocClientFlags `embed:"" prefix:"extproc-"`
}

// static returns what the Envoys of Envoy Gateway need besides the configuration, or nil.
func (f envoyGatewayFlags) static() (*envoygateway.Static, error) {
	if f.Extproc == "" {
		if f.TLS != (extprocClientFlags{}) {
			return nil, admincli.Misused("--envoy-gateway-extproc-ca, -cert, -key and -name need --envoy-gateway-extproc")
		}
		return nil, nil
	}
	at, err := bootstrap.ParseAddresses(f.Extproc)
	if err != nil {
		return nil, err
	}
	files, err := clientTLS("--envoy-gateway-extproc-", f.TLS.Cert, f.TLS.Key, f.TLS.CA, cmp.Or(f.TLS.Name, at[0].Host))
	if err != nil {
		return nil, err
	}
	s := &envoygateway.Static{}
	s.Clusters, s.Secrets, err = bootstrap.Shared(at, files)
	return s, err
}
