package cmdline

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/internal/proc"
)

// EtcdFlags say where etcd is and how it is reached.
type EtcdFlags struct {
	Endpoints []string `default:"http://127.0.0.1:2379" env:"MODELGATE_ETCD" help:"URLs of etcd."`
	CA        string   `env:"MODELGATE_ETCD_CA" help:"PEM file of the CA certificates that verify etcd."`
	Cert      string   `env:"MODELGATE_ETCD_CERT" help:"PEM file of this client's certificate."`
	Key       string   `env:"MODELGATE_ETCD_KEY" help:"PEM file of this client's private key."`
}

// Client connects to etcd.
func (f EtcdFlags) Client(log *zap.Logger, options ...grpc.DialOption) (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints:            f.Endpoints,
		DialTimeout:          5 * time.Second,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		Logger:               log.Named("etcd"),
		DialOptions:          options,
		Username:             os.Getenv("MODELGATE_ETCD_USERNAME"),
		Password:             os.Getenv("MODELGATE_ETCD_PASSWORD"),
	}
	if f.Cert != "" != (f.Key != "") || f.Cert != "" && f.CA == "" {
		return nil, admincli.Misused("--etcd-cert and --etcd-key need each other and --etcd-ca")
	}
	if f.CA != "" {
		var err error
		if config.TLS, err = f.tls(log); err != nil {
			return nil, err
		}
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	return client, nil
}

// tls returns the configuration of connections to etcd, each of whose members may have a certificate of its own.
func (f EtcdFlags) tls(log *zap.Logger) (*tls.Config, error) {
	var members []string
	for _, endpoint := range f.Endpoints {
		if !strings.Contains(endpoint, "://") {
			endpoint = "//" + endpoint
		}
		u, err := url.Parse(endpoint)
		if err != nil || u.Hostname() == "" {
			return nil, admincli.Misused("--etcd-endpoints: %q is not a URL", endpoint)
		}
		members = append(members, u.Hostname())
	}
	authorities, err := proc.FollowAuthorities(log, f.CA)
	if err != nil {
		return nil, err
	}
	config := proc.Trusting(authorities, members...)
	if f.Cert != "" {
		certificate, err := proc.FollowCertificate(log, f.Cert, f.Key)
		if err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return certificate.Now(), nil
		}
	}
	return config, nil
}
