package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/modelgate/modelgate/envoy/bootstrap"
)

// xdsFlags say where a client of the control plane finds it. With mutual TLS the client shows that it may have what it
// asks for: keys' hashes and credentials are in it.
type xdsFlags struct {
	Address string `default:"unix:///run/modelgate/xds.sock" env:"MODELGATE_XDS" help:"Where the control plane serves xDS: unix:///path or host:port."`
	CA      string `help:"PEM file of the authorities that the control plane's certificate is checked against. With it, the connection has mutual TLS."`
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

// dial returns a connection to the control plane. It is made when it is first used, and again after it breaks.
func (f xdsFlags) dial() (*grpc.ClientConn, error) {
	address, err := bootstrap.ParseAddress(f.Address)
	if err != nil {
		return nil, err
	}
	secure := insecure.NewCredentials()
	if given, err := f.mutualTLS(); err != nil {
		return nil, err
	} else if given {
		config, err := f.tls(address.Host)
		if err != nil {
			return nil, err
		}
		secure = credentials.NewTLS(config)
	}
	connection, err := grpc.NewClient(f.Address, grpc.WithTransportCredentials(secure),
		// Not gRPC's own pauses of up to two minutes: a control plane that is back is of use at once.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 5 * time.Second}))
	if err != nil {
		return nil, fmt.Errorf("connecting to the control plane: %w", err)
	}
	return connection, nil
}

// mutualTLS reports whether the connection has mutual TLS.
func (f xdsFlags) mutualTLS() (bool, error) { return allOrNone("--xds-", f.Cert, f.Key, f.CA) }

// allOrNone reports whether the files of mutual TLS are given. Some of them without the others are a mistake that must not
// lead to a connection without TLS.
func allOrNone(prefix, certificate, key, ca string) (bool, error) {
	switch {
	case certificate != "" && key != "" && ca != "":
		return true, nil
	case certificate != "" || key != "" || ca != "":
		return false, fmt.Errorf("%[1]scert, %[1]skey and %[1]sca go together: give all three or none", prefix)
	}
	return false, nil
}

func (f xdsFlags) tls(host string) (*tls.Config, error) {
	if _, err := readCertificate(f.Cert, f.Key); err != nil {
		return nil, err // found now, and not at the first handshake
	}
	authorities, err := readAuthorities(f.CA)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    authorities,
		ServerName: f.serverName(host),
		// Read at every handshake: the files are replaced when the certificate is renewed.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return readCertificate(f.Cert, f.Key)
		},
	}, nil
}

func readAuthorities(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("reading certificate authorities: %s holds no certificate", path)
	}
	return pool, nil
}

func readCertificate(certificate, key string) (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading a certificate: %w", err)
	}
	return &c, nil
}
