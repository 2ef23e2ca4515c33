package bootstrap

import (
	"errors"
	"fmt"
	"path"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/modelgate/modelgate/envoy"
)

// TLS names the files of a mutual TLS connection, which Envoy reads itself, and what the server's certificate must
// say.
type TLS struct {
	CA          string // PEM file of the authorities that the server's certificate is checked against
	Certificate string // PEM file of the client's certificate
	Key         string // PEM file of the client's private key
	ServerName  string // DNS name in the server's certificate, and the SNI
}

// secure gives a cluster mutual TLS, if files are given.
func (o Options) secure(c *clusterv3.Cluster, files *TLS) error {
	switch {
	case files == nil:
		return nil
	case c.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetPipe() != nil:
		return errors.New("a service on a Unix socket takes no TLS")
	case files.CA == "" || files.Certificate == "" || files.Key == "" || files.ServerName == "":
		return errors.New("TLS needs the server's authority, a certificate, a key and the server's name")
	}
	common := &tlsv3.CommonTlsContext{
		// Envoy's default for clients stops at TLS 1.2.
		TlsParams: &tlsv3.TlsParameters{
			TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
			TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
		},
		AlpnProtocols: []string{"h2"},
	}
	named := []*tlsv3.SubjectAltNameMatcher{{
		SanType: tlsv3.SubjectAltNameMatcher_DNS,
		Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: files.ServerName}},
	}}
	if o.SecretsDir == "" && !o.secretsOverADS {
		authorities := files.authorities()
		authorities.WatchedDirectory, authorities.MatchTypedSubjectAltNames = nil, named
		certificate := files.certificate()
		certificate.WatchedDirectory = nil
		common.TlsCertificates = []*tlsv3.TlsCertificate{certificate}
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: authorities}
	} else {
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{o.followed(certificateSecret(c.GetName()))}
		common.ValidationContextType = &tlsv3.CommonTlsContext_CombinedValidationContext{
			CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
				DefaultValidationContext:         &tlsv3.CertificateValidationContext{MatchTypedSubjectAltNames: named},
				ValidationContextSdsSecretConfig: o.followed(authoritiesSecret(c.GetName())),
			},
		}
	}
	typed, err := anypb.New(&tlsv3.UpstreamTlsContext{Sni: files.ServerName, CommonTlsContext: common})
	if err != nil {
		return fmt.Errorf("building its TLS: %w", err)
	}
	c.TransportSocket = &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: typed},
	}
	return nil
}

func certificateSecret(cluster string) string { return cluster + "-certificate" }
func authoritiesSecret(cluster string) string { return cluster + "-authorities" }
func secretFile(name string) string           { return "sds-" + name + ".yaml" }

// followed says that a secret is described by a file of Secrets, or by the control plane.
func (o Options) followed(name string) *tlsv3.SdsSecretConfig {
	if o.secretsOverADS {
		return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: ads()}
	}
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ResourceApiVersion: corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{
			PathConfigSource: &corev3.PathConfigSource{Path: path.Join(o.SecretsDir, secretFile(name))},
		},
	}}
}

// Secrets returns the files, by name, that must be in SecretsDir before Envoy starts. They hold no secret, only where
// it is: Envoy reads a certificate, its key and the authorities again when something is renamed within the folder that
// they are in, which is how Kubernetes and cert-manager replace them. What is written over a file in place it does not
// see.
func Secrets(o Options) (map[string][]byte, error) {
	files := map[string][]byte{}
	for cluster, t := range map[string]*TLS{envoy.ClusterXDS: o.XDSTLS, envoy.ClusterExtProc: o.ExtProcTLS} {
		if t == nil || o.SecretsDir == "" {
			continue
		}
		for _, secret := range t.secrets(cluster) {
			resource, err := anypb.New(secret)
			if err != nil {
				return nil, fmt.Errorf("building the secret %s: %w", secret.GetName(), err)
			}
			// Envoy takes one secret from a file, not several.
			text, err := asYAML(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{resource}})
			if err != nil {
				return nil, err
			}
			files[secretFile(secret.GetName())] = text
		}
	}
	return files, nil
}

// secrets say where the files of a cluster's TLS are. They have nothing secret in them.
func (t TLS) secrets(cluster string) []*tlsv3.Secret {
	return []*tlsv3.Secret{
		{Name: certificateSecret(cluster), Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: t.certificate()}},
		{Name: authoritiesSecret(cluster), Type: &tlsv3.Secret_ValidationContext{ValidationContext: t.authorities()}},
	}
}

func (t TLS) certificate() *tlsv3.TlsCertificate {
	return &tlsv3.TlsCertificate{
		CertificateChain: file(t.Certificate), PrivateKey: file(t.Key), WatchedDirectory: folder(t.Certificate),
	}
}

func (t TLS) authorities() *tlsv3.CertificateValidationContext {
	return &tlsv3.CertificateValidationContext{TrustedCa: file(t.CA), WatchedDirectory: folder(t.CA)}
}

func file(name string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: name}}
}

// folder returns the folder of a file. The path is on Envoy's machine.
func folder(name string) *corev3.WatchedDirectory {
	return &corev3.WatchedDirectory{Path: path.Dir(name)}
}
