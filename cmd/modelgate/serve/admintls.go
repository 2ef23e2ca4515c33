package serve

import (
	"crypto/tls"
	"net"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/internal/proc"
)

// errAdminNeedsTLS refuses to send tokens and keys in clear to other machines.
var errAdminNeedsTLS = admincli.Misused("--admin is reachable from other machines and needs TLS: give --admin-cert and --admin-key, a loopback address, or --admin-plain-http behind a proxy that terminates TLS")

// adminTLS returns the TLS of the admin address, or nil if there is none.
func (c *ControlplaneCmd) adminTLS(log *zap.Logger) (*tls.Config, error) {
	if c.AdminCert != "" != (c.AdminKey != "") {
		return nil, admincli.Misused("--admin-cert and --admin-key need each other: give both or none")
	}
	if c.AdminCert == "" {
		return nil, nil
	}
	certificate, err := proc.FollowCertificate(log, c.AdminCert, c.AdminKey)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate.Now(), nil },
	}, nil
}

// loopback reports whether only this machine reaches an address.
func loopback(a net.Addr) bool {
	switch a := a.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	}
	return false
}
