package bootstrap

import (
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/modelgate/modelgate/envoy"
)

// unlimited is set where a circuit breaker must never fire: a request that meets an open one fails for good, without a
// retry. The concurrency of providers is limited where a full one can be planned around.
const unlimited = 1_000_000

func extProcCluster(at Address) (*clusterv3.Cluster, error) {
	c, err := grpcCluster(envoy.ClusterExtProc, at, 250*time.Millisecond, &corev3.Http2ProtocolOptions{
		// Envoy opens further connections by itself; more of them let more goroutines share the reading and writing.
		MaxConcurrentStreams:        wrapperspb.UInt32(256),
		InitialStreamWindowSize:     wrapperspb.UInt32(1 << 20),
		InitialConnectionWindowSize: wrapperspb.UInt32(16 << 20),
	})
	if err != nil {
		return nil, err
	}
	c.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{
		breaker(corev3.RoutingPriority_DEFAULT),
		breaker(corev3.RoutingPriority_HIGH),
	}}
	return c, nil
}

func breaker(p corev3.RoutingPriority) *clusterv3.CircuitBreakers_Thresholds {
	return &clusterv3.CircuitBreakers_Thresholds{
		Priority:           p,
		MaxConnections:     wrapperspb.UInt32(unlimited),
		MaxPendingRequests: wrapperspb.UInt32(unlimited),
		MaxRequests:        wrapperspb.UInt32(unlimited),
		MaxRetries:         wrapperspb.UInt32(unlimited),
	}
}

func xdsCluster(at Address, files *TLS) (*clusterv3.Cluster, error) {
	c, err := grpcCluster(envoy.ClusterXDS, at, time.Second, &corev3.Http2ProtocolOptions{
		// A control plane that is gone without a word is noticed; its server must permit pings this often.
		ConnectionKeepalive: &corev3.KeepaliveSettings{
			Interval: durationpb.New(30 * time.Second),
			Timeout:  durationpb.New(5 * time.Second),
		},
	})
	if err != nil || files == nil {
		return c, err
	}
	c.TransportSocket, err = mutualTLS(*files)
	return c, err
}

// deadEnd has no endpoints: a request that was not planned ends there with a 503 and goes nowhere.
func deadEnd() *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 envoy.ClusterDeadEnd,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       durationpb.New(time.Second),
		LoadAssignment:       &endpointv3.ClusterLoadAssignment{ClusterName: envoy.ClusterDeadEnd},
	}
}

func grpcCluster(name string, at Address, connect time.Duration, http2 *corev3.Http2ProtocolOptions) (*clusterv3.Cluster, error) {
	endpoints, err := at.endpoints(name)
	if err != nil {
		return nil, err
	}
	protocol, err := anypb.New(&httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: http2,
				},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("building its protocol options: %w", err)
	}
	return &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: at.discovery()},
		ConnectTimeout:       durationpb.New(connect),
		LoadAssignment:       endpoints,
		TypedExtensionProtocolOptions: map[string]*anypb.Any{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": protocol,
		},
	}, nil
}

func mutualTLS(files TLS) (*corev3.TransportSocket, error) {
	file := func(path string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
	}
	typed, err := anypb.New(&tlsv3.UpstreamTlsContext{
		Sni: files.ServerName,
		CommonTlsContext: &tlsv3.CommonTlsContext{
			// Envoy's default for clients stops at TLS 1.2.
			TlsParams: &tlsv3.TlsParameters{
				TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
				TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
			},
			AlpnProtocols: []string{"h2"},
			TlsCertificates: []*tlsv3.TlsCertificate{{
				CertificateChain: file(files.Certificate),
				PrivateKey:       file(files.Key),
			}},
			ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{
				ValidationContext: &tlsv3.CertificateValidationContext{
					TrustedCa: file(files.CA),
					MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{{
						SanType: tlsv3.SubjectAltNameMatcher_DNS,
						Matcher: &matcherv3.StringMatcher{
							MatchPattern: &matcherv3.StringMatcher_Exact{Exact: files.ServerName},
						},
					}},
				},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("building its TLS: %w", err)
	}
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: typed},
	}, nil
}
