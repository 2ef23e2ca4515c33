package xds

import (
	"errors"
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/provider"
)

// Names of the listener that only the job service reaches. They have a prefix as a gateway's.
const (
	internalListenerName = "jobs/internal"
	internalRoutesName   = "jobs/internal/routes"
)

// jobsIdle is the idle timeout of a request to the job service, which may be storing the received data.
const jobsIdle = 10 * time.Minute

// jobService builds the cluster of the job service, which every gateway has a route to, and the listener for it.
// Without the object that route leads to a missing cluster.
func (b *builder) jobService(s *configv1.JobService) ([]Resource, error) {
	address, err := configv1.ParseSocket(s.GetAddress(), false)
	if err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	listen, err := configv1.ParseSocket(s.GetListen(), true)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	local := address.Local() && listen.Local()
	switch {
	case s.GetName() != "default":
		return nil, errors.New("name: there is one job service, default")
	case local != (s.GetTls() == nil):
		return nil, errors.New("tls: is required unless both are Unix sockets, and of no use between them")
	case !local && (s.GetTls().GetCa() == "" || s.GetTls().GetServerName() == ""):
		return nil, errors.New("tls: ca and server_name are required") // otherwise any certificate would be accepted
	}
	if !listen.Local() {
		if err := b.take(socket{"listen", listen.Host, listen.Port, "the job service"}); err != nil {
			return nil, err
		}
	}
	var validation *tlsv3.CertificateValidationContext
	if !local {
		trusted, err := b.trustedCA(s.GetTls().GetCa())
		if err != nil {
			return nil, err
		}
		validation = &tlsv3.CertificateValidationContext{
			TrustedCa: trusted,
			MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{{
				SanType: tlsv3.SubjectAltNameMatcher_DNS, Matcher: exactly(s.GetTls().GetServerName()),
			}},
		}
	}
	return []Resource{
		{Role: envoy.RoleEnvoy, Name: envoy.ClusterJobs, Message: jobsCluster(address, s.GetTls(), validation)},
		{Role: envoy.RoleEnvoy, Name: internalListenerName, Message: internalListener(listen, s.GetTls(), validation)},
		{Role: envoy.RoleEnvoy, Name: internalRoutesName, Message: b.internalRoutes()},
		extProcResource(internalExtProcFilter, downstreamExtProc(envoy.RoleInternal)),
	}, nil
}

// jobsCluster uses HTTP/1.1: each upload has its own connection, with the kernel's flow control.
func jobsCluster(address configv1.Socket, t *configv1.MutualTLS,
	validation *tlsv3.CertificateValidationContext) *clusterv3.Cluster {
	to := target{endpoint: provider.Endpoint{Host: address.Host, Port: address.Port, Pipe: address.Path},
		connect: 5 * time.Second}
	c := cluster(to, envoy.ClusterJobs, nil)
	c.Metadata = nil // it is not a provider
	if named(to.endpoint) {
		replicas := dnsCluster()
		replicas.AllAddressesInSingleEndpoint = false
		c.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
			Name: "envoy.clusters.dns", TypedConfig: pack(replicas),
		}}
	}
	if !address.Local() {
		c.TransportSocket = transportSocket(&tlsv3.UpstreamTlsContext{Sni: t.GetServerName(),
			CommonTlsContext: mutualTLS(t, validation)})
	}
	return c
}

// mutualTLS uses a certificate from SDS, and validates the peer's.
func mutualTLS(t *configv1.MutualTLS, validation *tlsv3.CertificateValidationContext) *tlsv3.CommonTlsContext {
	c := shownCertificate(t.GetCertificate())
	c.AlpnProtocols = []string{"http/1.1"}
	c.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: validation}
	return c
}

// internalListener is the listener for the job service's requests to providers. It trusts their headers about the
// client, so nobody else may reach it.
func internalListener(at configv1.Socket, t *configv1.MutualTLS,
	validation *tlsv3.CertificateValidationContext) *listenerv3.Listener {
	chain := &listenerv3.FilterChain{Filters: []*listenerv3.Filter{connectionManager(internalConnections())}}
	l := &listenerv3.Listener{
		Name:                          internalListenerName,
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(connectionBuffer),
		FilterChains:                  []*listenerv3.FilterChain{chain},
	}
	if at.Local() {
		l.Address = &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: at.Path, Mode: 0o600}}}
		return l
	}
	l.Address = socketAddress(at.Host, at.Port)
	chain.TransportSocketConnectTimeout = seconds(10)
	chain.TransportSocket = transportSocket(&tlsv3.DownstreamTlsContext{
		RequireClientCertificate: wrapperspb.Bool(true),
		CommonTlsContext:         mutualTLS(t, validation),
	})
	return l
}

// internalConnections has no limit of the body: files pass to providers unchanged, and translated bodies are buffered
// within the limit of the routes. Paths are the providers' own and stay unchanged.
func internalConnections() *hcmv3.HttpConnectionManager {
	return connectionDefaults("jobs", internalRoutesName, internalExtProcFilter)
}

func (b *builder) internalRoutes() *routev3.RouteConfiguration {
	return b.routeConfiguration(internalRoutesName, new(configv1.Gateway).RequestLimit(), entry(prefix("/")))
}

// jobsRoute routes requests for the job service. It has no retries, because many requests create something, and no
// timeout except for idle requests.
func jobsRoute() *routev3.Route {
	return &routev3.Route{
		Name:  envoy.RouteJobs,
		Match: ofKind(envoy.KindJobs),

		TypedPerFilterConfig: passing(),
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: envoy.ClusterJobs},
			Timeout:          seconds(0),
			IdleTimeout:      durationpb.New(jobsIdle),
		}},
	}
}

// uploads are the entry routes for bodies above a gateway's limit. The job service has its own limits. The ext_proc
// service passes the body there or nowhere.
func uploads() []*routev3.Route {
	unlimited := pack(&routev3.FilterConfig{Disabled: true})
	var routes []*routev3.Route
	for _, path := range []string{"/v1/files", "/v1/uploads"} {
		r := entry(&routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: path}})
		r.TypedPerFilterConfig[sizeLimitFilter] = unlimited
		routes = append(routes, r)
	}
	return routes
}
