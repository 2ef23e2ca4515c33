package xds

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
)

// authoritiesName returns the SDS name of the authorities of a gateway's clients.
func authoritiesName(gateway string) string { return "clients/" + gateway }

// clientsFilter returns the name of the ext_proc filter of a gateway whose clients may present certificates.
func clientsFilter(g *configv1.Gateway) string { return extProcFilter + "/" + g.GetName() }

// isExtProc reports whether a filter of a gateway's listener asks the ext_proc service.
func isExtProc(name string) bool {
	return name == extProcFilter || strings.HasPrefix(name, extProcFilter+"/")
}

// issuerFor returns the issuer of the certificates that clients of a gateway may present, or nil.
func issuerFor(g *configv1.Gateway, issuers []*configv1.CertificateIssuer) *configv1.CertificateIssuer {
	for _, c := range issuers {
		if c.GatewayName() == g.GetName() {
			return c
		}
	}
	return nil
}

// clientAuthorities returns the SDS secret that client certificates are verified with, so that another authority or
// revocation list changes no listener.
func clientAuthorities(c *configv1.CertificateIssuer) ([]Resource, error) {
	verified := &tlsv3.CertificateValidationContext{TrustedCa: inline(c.GetCa())}
	if c.GetCrl() != "" {
		verified.Crl = inline(c.GetCrl())
	}
	secret := &tlsv3.Secret{Name: authoritiesName(c.GatewayName()),
		Type: &tlsv3.Secret_ValidationContext{ValidationContext: verified}}
	return []Resource{{Role: envoy.RoleEnvoy, Name: secret.GetName(), Message: secret}}, nil
}

// takeCertificates has a listener ask clients for certificates, and tell the ext_proc service whose they are. What a
// client says of that itself is removed, unless there are proxies that may: the connection's own certificate then
// comes last.
func takeCertificates(secure *tlsv3.DownstreamTlsContext, connections *hcmv3.HttpConnectionManager,
	g *configv1.Gateway, c *configv1.CertificateIssuer) {
	secure.RequireClientCertificate = wrapperspb.Bool(c.GetRequired())
	secure.CommonTlsContext.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{
		ValidationContextSdsSecretConfig: &tlsv3.SdsSecretConfig{Name: authoritiesName(g.GetName()), SdsConfig: ads()}}
	connections.ForwardClientCertDetails = hcmv3.HttpConnectionManager_SANITIZE_SET
	if len(c.GetProxies()) > 0 {
		connections.ForwardClientCertDetails = hcmv3.HttpConnectionManager_APPEND_FORWARD
	}
	// The certificate itself, and not its names: Envoy writes them without quotes, so that a name with a separator in it
	// looks like two.
	connections.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{Cert: true}
	for _, f := range connections.GetHttpFilters() {
		if f.GetName() == extProcFilter {
			f.Name = clientsFilter(g)
		}
	}
}

// clientsExtProc returns the ext_proc filter of a gateway whose clients may present certificates. It says in the
// stream's metadata which gateway it is of: nowhere else is the header of certificates believed.
func clientsExtProc(g *configv1.Gateway) Resource {
	filter := gatewayExtProc()
	filter.GrpcService.InitialMetadata = append(filter.GrpcService.InitialMetadata,
		&corev3.HeaderValue{Key: envoy.CertificatesHeader, Value: g.GetName()})
	return extProcResource(clientsFilter(g), filter)
}
