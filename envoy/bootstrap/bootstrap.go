// Package bootstrap builds what an Envoy is started with: its name, its admin socket, its limits, and the few clusters
// that it must have before the control plane answers. Everything else arrives over xDS.
//
// What a newcomer gets wrong: the ext_proc cluster belongs here and not in CDS. An update of a cluster rebuilds it, and
// that would cut every gRPC stream that is open to it.
package bootstrap

import (
	"errors"
	"fmt"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/yaml"

	"github.com/modelgate/modelgate/envoy"
)

// DefaultMaxConnections is how many downstream connections an Envoy accepts where Options does not say. It must stay
// below half of the process's limit of file descriptors.
const DefaultMaxConnections = 50_000

// Options is what differs from one Envoy to the next.
type Options struct {
	// NodeID names this Envoy in the control plane's logs. Required.
	NodeID string
	// AdminSocket is the path of the Unix socket of Envoy's admin interface. Required. Only the user that runs Envoy
	// can open it.
	AdminSocket string
	// ExtProc is where the ext_proc service listens, without TLS: a Unix socket, or a port that no one else can reach.
	// Required.
	ExtProc Address
	// XDS is where the control plane listens. Required.
	XDS Address
	// XDSTLS is the mutual TLS of the connection to the control plane. Nil where that is a Unix socket.
	XDSTLS *TLS
	// MaxHeapBytes is the heap at 95 % of which Envoy refuses new requests. 0: there is no such limit.
	MaxHeapBytes uint64
	// MaxConnections is how many downstream connections are accepted. 0: DefaultMaxConnections.
	MaxConnections int64
}

// TLS names the files of a mutual TLS connection, which Envoy reads itself, and what the server's certificate must say.
type TLS struct {
	CA          string // PEM file of the authorities that the server's certificate is checked against
	Certificate string // PEM file of the client's certificate
	Key         string // PEM file of the client's private key
	ServerName  string // DNS name in the server's certificate, and the SNI
}

// Build returns the bootstrap for o. It is a pure function: the same options give the same bootstrap.
func Build(o Options) (*bootstrapv3.Bootstrap, error) {
	if o.NodeID == "" || o.AdminSocket == "" {
		return nil, errors.New("an Envoy needs a node id and an admin socket")
	}
	if o.XDSTLS != nil && o.XDS.Pipe != "" {
		return nil, errors.New("a control plane on a Unix socket takes no TLS")
	}
	if t := o.XDSTLS; t != nil && (t.CA == "" || t.Certificate == "" || t.Key == "" || t.ServerName == "") {
		return nil, errors.New("TLS to the control plane needs its authority, a certificate, a key and the server's name")
	}
	extProc, err := extProcCluster(o.ExtProc)
	if err != nil {
		return nil, fmt.Errorf("the ext_proc cluster: %w", err)
	}
	xds, err := xdsCluster(o.XDS, o.XDSTLS)
	if err != nil {
		return nil, fmt.Errorf("the control plane's cluster: %w", err)
	}
	overload, err := overloadManager(o)
	if err != nil {
		return nil, err
	}
	runtime, err := layeredRuntime()
	if err != nil {
		return nil, err
	}
	return &bootstrapv3.Bootstrap{
		Node: &corev3.Node{Id: o.NodeID, Cluster: envoy.RoleEnvoy},
		Admin: &bootstrapv3.Admin{Address: &corev3.Address{Address: &corev3.Address_Pipe{
			Pipe: &corev3.Pipe{Path: o.AdminSocket, Mode: 0o600},
		}}},
		DynamicResources: dynamicResources(),
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Clusters: []*clusterv3.Cluster{extProc, xds, deadEnd()},
		},
		OverloadManager: overload,
		LayeredRuntime:  runtime,
		// A client that Envoy drops because no stream was opened for 50 s, its default, takes a stream that is being closed
		// gracefully down with it: Envoy crashed when an answer took longer than that on a quiet gateway. There are no more
		// of these clients than there are filters.
		GrpcAsyncClientManagerConfig: &bootstrapv3.Bootstrap_GrpcAsyncClientManagerConfig{
			MaxCachedEntryIdleDuration: durationpb.New(365 * 24 * time.Hour),
		},
		// Without it the memory of a large body that has been answered stays with the process.
		MemoryAllocatorManager: &bootstrapv3.MemoryAllocatorManager{
			BytesToRelease:        64 << 20,
			MemoryReleaseInterval: durationpb.New(time.Second),
		},
	}, nil
}

// YAML returns the bootstrap for o as the text of the file that Envoy is started with.
func YAML(o Options) ([]byte, error) {
	b, err := Build(o)
	if err != nil {
		return nil, err
	}
	if err := b.ValidateAll(); err != nil {
		return nil, fmt.Errorf("checking the bootstrap: %w", err)
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("writing the bootstrap: %w", err)
	}
	return yaml.JSONToYAML(text)
}

// dynamicResources has Envoy fetch everything over one delta ADS stream, and try again soon when the control plane is
// not there: the default is to wait for up to 30 seconds.
func dynamicResources() *bootstrapv3.Bootstrap_DynamicResources {
	ads := func() *corev3.ConfigSource {
		return &corev3.ConfigSource{
			ResourceApiVersion:    corev3.ApiVersion_V3,
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		}
	}
	return &bootstrapv3.Bootstrap_DynamicResources{
		AdsConfig: &corev3.ApiConfigSource{
			ApiType:                   corev3.ApiConfigSource_DELTA_GRPC,
			TransportApiVersion:       corev3.ApiVersion_V3,
			SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{
				TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
					EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: envoy.ClusterXDS},
				},
				RetryPolicy: &corev3.RetryPolicy{RetryBackOff: &corev3.BackoffStrategy{
					BaseInterval: durationpb.New(250 * time.Millisecond),
					MaxInterval:  durationpb.New(2 * time.Second),
				}},
			}},
		},
		LdsConfig: ads(),
		CdsConfig: ads(),
	}
}

// layeredRuntime lets the ext_proc service see the end of an HTTP stream as the end of its own, not as a cancelled
// context.
func layeredRuntime() (*bootstrapv3.LayeredRuntime, error) {
	static, err := structpb.NewStruct(map[string]any{
		"envoy.reloadable_features.ext_proc_graceful_grpc_close": true,
	})
	if err != nil {
		return nil, fmt.Errorf("building the runtime layer: %w", err)
	}
	return &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{
		Name:           "static",
		LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: static},
	}}}, nil
}
