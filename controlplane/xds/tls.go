package xds

import (
	"crypto/x509"
	"errors"
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
)

// clientTLS returns the validation of a provider's certificate, by authorities and name.
func (b *builder) clientTLS(e provider.Endpoint, o *configv1.UpstreamTLS) (*tlsv3.UpstreamTlsContext, error) {
	trusted, err := b.trustedCA(o.GetCa())
	if err != nil {
		return nil, err
	}
	name := o.GetServerName()
	if name == "" {
		name = e.Host
	}
	san := &tlsv3.SubjectAltNameMatcher{SanType: tlsv3.SubjectAltNameMatcher_DNS, Matcher: exactly(name)}
	sni := name
	if ip, err := netip.ParseAddr(name); err == nil {
		// An address is not a name: it may not be sent as SNI, and a certificate has it in its shortest form.
		san = &tlsv3.SubjectAltNameMatcher{SanType: tlsv3.SubjectAltNameMatcher_IP_ADDRESS, Matcher: exactly(ip.String())}
		sni = ""
	}
	return &tlsv3.UpstreamTlsContext{
		Sni: sni,
		CommonTlsContext: &tlsv3.CommonTlsContext{
			AlpnProtocols: []string{"h2", "http/1.1"},
			TlsParams:     tlsVersions(),
			ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{
				ValidationContext: &tlsv3.CertificateValidationContext{
					TrustedCa:                 trusted,
					MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{san},
				},
			},
		},
	}, nil
}

func (b *builder) trustedCA(pem string) (*corev3.DataSource, error) {
	switch {
	case pem != "":
		if !x509.NewCertPool().AppendCertsFromPEM([]byte(pem)) {
			return nil, errors.New("tls.ca: holds no certificate in PEM")
		}
		return inline(pem), nil
	case b.options.SystemCA != "":
		return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: b.options.SystemCA}}, nil
	default:
		return nil, errors.New("tls.ca: is required, there are no system certificate authorities")
	}
}

// tlsVersions sets both bounds: the default maximum of Envoy as a client is TLS 1.2.
func tlsVersions() *tlsv3.TlsParameters {
	return &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2,
		TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
	}
}

func transportSocket(context proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pack(context)},
	}
}
