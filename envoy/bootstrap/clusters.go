package bootstrap

import (
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/modelgate/modelgate/envoy"
)

// unlimited is set where a circuit breaker must never fire: a request that meets an open one fails for good, without a
// retry. The concurrency of providers is limited where a full one can be planned around.
const unlimited = 1_000_000

func extProcCluster(o Options) (*clusterv3.Cluster, error) {
	c, err := grpcCluster(envoy.ClusterExtProc, o.ExtProc, 250*time.Millisecond, &corev3.Http2ProtocolOptions{
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
	if o.ExtProc.pipe() == "" {
		checkHealth(c)
	}
	return c, o.secure(c, o.ExtProcTLS)
}

// checkHealth keeps new streams from a process that has gone, is not ready or ends. Open ones go on. If none is
// healthy, each may be asked.
func checkHealth(c *clusterv3.Cluster) {
	second := durationpb.New(time.Second)
	c.HealthChecks = []*corev3.HealthCheck{{
		Timeout: second, Interval: second, NoTrafficInterval: second,
		UnhealthyThreshold: wrapperspb.UInt32(1), HealthyThreshold: wrapperspb.UInt32(1),
		HealthChecker: &corev3.HealthCheck_GrpcHealthCheck_{GrpcHealthCheck: &corev3.HealthCheck_GrpcHealthCheck{}},
	}}
	c.IgnoreHealthOnHostRemoval = true
	c.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{HealthyPanicThreshold: &typev3.Percent{Value: 1}}
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

func xdsCluster(o Options) (*clusterv3.Cluster, error) {
	c, err := grpcCluster(envoy.ClusterXDS, Addresses{o.XDS}, time.Second, &corev3.Http2ProtocolOptions{
		// A control plane that is gone without a word is noticed; its server must permit pings this often.
		ConnectionKeepalive: &corev3.KeepaliveSettings{
			Interval: durationpb.New(30 * time.Second),
			Timeout:  durationpb.New(5 * time.Second),
		},
	})
	if err != nil {
		return nil, err
	}
	return c, o.secure(c, o.XDSTLS)
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

func grpcCluster(name string, at Addresses, connect time.Duration,
	http2 *corev3.Http2ProtocolOptions) (*clusterv3.Cluster, error) {
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
