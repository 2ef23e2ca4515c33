package serve

import (
	"crypto/tls"
	"slices"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/internal/proc"
)

// extprocServerFlags are the mutual TLS of an ext_proc service that Envoy reaches over a network, as where an Envoy
// that is there already asks it.
type extprocServerFlags struct {
	Cert string `help:"PEM file of the server certificate for Envoy. If it is set, Envoy must also present a certificate."`
	Key  string `help:"${key}"`
	CA   string `help:"PEM file of the CA certificates that verify Envoy. The process reloads all three files after a renewal."`
	Name string `help:"DNS name that Envoy's certificate must have. Default: any certificate that the CA issued."`
	Peer string `help:"DNS name in the certificates of the processes that --peers names. They are clients of each other, with the same files."`
}

// config returns nil if there is no TLS.
func (f extprocServerFlags) config(listen string, log *zap.Logger) (*tls.Config, error) {
	files, err := readMutualTLS(log, "--tls-", f.Cert, f.Key, f.CA)
	switch {
	case err != nil:
		return nil, err
	case files == nil && f.Name != "":
		return nil, admincli.Misused("--tls-name names a certificate, and needs --tls-cert, --tls-key and --tls-ca")
	case files == nil:
		return nil, nil
	case proc.OnSocket(listen):
		return nil, admincli.Misused("--listen is a Unix socket, which has no TLS")
	case f.Name == "":
		return files.Server(), nil
	}
	return files.Server(slices.DeleteFunc([]string{f.Name, f.Peer}, func(s string) bool { return s == "" })...), nil
}
