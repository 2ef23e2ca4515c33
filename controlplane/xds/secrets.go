package xds

import (
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
)

// secretName returns the SDS name of a certificate. The prefix makes it recognisable in Envoy's reports.
func secretName(certificate string) string { return "certificate/" + certificate }

// certificate returns the SDS secret of a certificate with a resolved private key.
func certificate(c *configv1.Certificate) ([]Resource, error) {
	chain, key := c.GetChain(), c.GetPrivateKey().GetValue()
	pair, err := tls.X509KeyPair([]byte(chain), []byte(key))
	if err != nil {
		return nil, fmt.Errorf("chain and private_key: %w", err)
	}
	if _, ok := pair.PrivateKey.(ed25519.PrivateKey); ok {
		return nil, errors.New("private_key: Envoy takes ECDSA and RSA keys, not Ed25519")
	}
	secret := &tlsv3.Secret{
		Name: secretName(c.GetName()),
		Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: inline(chain),
			PrivateKey:       inline(key),
		}},
	}
	return []Resource{{Role: envoy.RoleEnvoy, Name: secret.GetName(), Message: secret}}, nil
}

func inline(text string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}
}
