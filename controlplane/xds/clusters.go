package xds

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commondnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/common/dns/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/provider"
)

// never is a threshold at which a circuit breaker does not open. Envoy does not retry an overflow, so the concurrency
// of a provider is bounded in the plan, where another provider can be chosen.
const never = 65536

// A target has the common parts of a provider's clusters.
type target struct {
	provider string
	endpoint provider.Endpoint
	connect  time.Duration
	tls      *tlsv3.UpstreamTlsContext // nil: no TLS
	place    string                    // identifies the place
	sessions bool                      // the vendor has the Realtime API
}

// target reads a provider's endpoint and connection settings.
func (b *builder) target(p *configv1.Provider) (target, error) {
	vendor, ok := b.options.Providers[p.GetVendor()]
	if !ok {
		return target{}, fmt.Errorf("vendor: there is no vendor %q", p.GetVendor())
	}
	endpoint, err := vendor.Endpoint(p)
	if err != nil {
		return target{}, fmt.Errorf("endpoint: %w", err)
	}
	if err := checkEndpoint(endpoint); err != nil {
		return target{}, err
	}
	if err := checkHeaders(p.GetHeaders()); err != nil {
		return target{}, err
	}
	if err := checkTimeouts(p.GetTimeouts()); err != nil {
		return target{}, err
	}
	t := target{provider: p.GetName(), endpoint: endpoint, connect: p.GetTimeouts().ConnectTimeout(),
		place: placeOf(endpoint, p.GetTls()), sessions: vendor.For(p).Realtime != nil}
	if endpoint.TLS {
		if t.tls, err = b.clientTLS(endpoint, p.GetTls()); err != nil {
			return target{}, err
		}
	}
	return t, nil
}

// placeOf identifies a place. If two places had the same id, requests that are signed for one could be sent to the
// other.
func placeOf(e provider.Endpoint, o *configv1.UpstreamTLS) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%t %q %d %q %q %q", e.TLS, e.Host, e.Port, e.Pipe, o.GetCa(),
		o.GetServerName()))
	return hex.EncodeToString(sum[:16])
}

// clusters returns the clusters of a provider, which have names by place.
func (b *builder) clusters(t target) []Resource {
	first := envoy.AtPlace(envoy.FirstCluster(t.provider), t.place)
	retry := envoy.AtPlace(envoy.RetryCluster(t.provider), t.place)
	rs := []Resource{
		{Role: envoy.RoleEnvoy, Name: first, Message: cluster(t, first, nil)},
		{Role: envoy.RoleEnvoy, Name: retry, Message: cluster(t, retry, retryFilters(b.strip))},
	}
	if t.sessions {
		name := envoy.AtPlace(envoy.SessionCluster(t.provider), t.place)
		rs = append(rs, Resource{Role: envoy.RoleEnvoy, Name: name, Message: sessionCluster(t, name, b.strip)})
	}
	return rs
}

// cluster returns a cluster of a provider. If there are upstream filters, the last is the codec.
func cluster(t target, name string, filters []*hcmv3.HttpFilter) *clusterv3.Cluster {
	c := &clusterv3.Cluster{
		Name:                          name,
		Metadata:                      providerMetadata(t.provider),
		ConnectTimeout:                durationpb.New(t.connect),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(1 << 20),
		LoadAssignment:                endpoints(t.endpoint, name),
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			Priority:           corev3.RoutingPriority_DEFAULT,
			MaxConnections:     wrapperspb.UInt32(never),
			MaxPendingRequests: wrapperspb.UInt32(never),
			MaxRequests:        wrapperspb.UInt32(never),
			MaxRetries:         wrapperspb.UInt32(never),
		}}},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": pack(protocolOptions(t, filters)),
		},
	}
	if t.tls != nil {
		c.TransportSocket = transportSocket(t.tls)
	}
	if named(t.endpoint) {
		c.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
			Name: "envoy.clusters.dns", TypedConfig: pack(dnsCluster()),
		}}
	} else {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
	}
	return c
}

// dnsCluster treats all addresses of a name as one endpoint, which is right for a CDN: any address will do, and
// connections to an address survive if the next DNS answer lacks it.
func dnsCluster() *dnsv3.DnsCluster {
	return &dnsv3.DnsCluster{
		DnsLookupFamily:              commondnsv3.DnsLookupFamily_ALL,
		AllAddressesInSingleEndpoint: true,
		RespectDnsTtl:                true,
		DnsMinRefreshRate:            seconds(5),
		DnsRefreshRate:               seconds(30),
	}
}

// protocolOptions selects HTTP/2 if TLS negotiates it, and HTTP/1.1 otherwise.
func protocolOptions(t target, filters []*hcmv3.HttpFilter) *httpv3.HttpProtocolOptions {
	o := &httpv3.HttpProtocolOptions{
		// Below 60 s, after which common load balancers close an idle connection even if a request arrives.
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{IdleTimeout: seconds(55)},
		HttpFilters:               filters,
	}
	if t.tls == nil {
		useHTTP1(o)
		return o
	}
	o.UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_AutoConfig{
		AutoConfig: &httpv3.HttpProtocolOptions_AutoHttpConfig{
			HttpProtocolOptions: &corev3.Http1ProtocolOptions{},
			Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
				InitialStreamWindowSize:     wrapperspb.UInt32(1 << 20),
				InitialConnectionWindowSize: wrapperspb.UInt32(4 << 20),
				ConnectionKeepalive:         keepalive(),
			},
		},
	}
	return o
}

func useHTTP1(o *httpv3.HttpProtocolOptions) {
	o.UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
				HttpProtocolOptions: &corev3.Http1ProtocolOptions{},
			},
		},
	}
}

func providerMetadata(name string) *corev3.Metadata {
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
		envoy.Metadata: {Fields: map[string]*structpb.Value{envoy.MetadataProvider: structpb.NewStringValue(name)}},
	}}
}

func checkTimeouts(t *configv1.Timeouts) error {
	return cmp.Or(
		positive("timeouts.connect", t.GetConnect()),
		positive("timeouts.first_byte", t.GetFirstByte()),
		positive("timeouts.idle", t.GetIdle()),
	)
}

// positive returns an error for a duration below a millisecond, Envoy's unit.
func positive(field string, d *durationpb.Duration) error {
	switch {
	case d == nil:
		return nil
	case d.CheckValid() != nil:
		return fmt.Errorf("%s: %w", field, d.CheckValid())
	case d.AsDuration() < time.Millisecond:
		return fmt.Errorf("%s: %s is below a millisecond", field, d.AsDuration())
	default:
		return nil
	}
}
