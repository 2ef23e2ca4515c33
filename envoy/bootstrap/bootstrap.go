// Package bootstrap builds the bootstrap configuration of an Envoy: its name, its admin socket, its limits, and the
// few clusters that it needs before the control plane answers. Everything else comes over xDS.
//
// The ext_proc cluster must be in the bootstrap and not in CDS. An update of a cluster rebuilds it, which would cut
// every open gRPC stream to it.
package bootstrap

import (
	"errors"
	"fmt"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
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
	// ExtProc is where the ext_proc service listens. Required.
	ExtProc Addresses
	// ExtProcTLS is the mutual TLS of the connections to it. Nil where ExtProc is a Unix socket, or a port that no one
	// else can reach.
	ExtProcTLS *TLS
	// XDS is where the control plane listens. Required.
	XDS Address
	// XDSTLS is the mutual TLS of the connection to the control plane. Nil if that is a Unix socket.
	XDSTLS *TLS
	// SecretsDir is the folder, on Envoy's machine, of the files that Secrets returns: with it Envoy follows the files of
	// TLS when they are renewed. Empty: it reads them once.
	SecretsDir string
	// MaxHeapBytes is the size of the heap. Envoy refuses new requests at 95 % of it. 0: there is no such limit.
	MaxHeapBytes uint64
	// MaxConnections is how many downstream connections are accepted. 0: DefaultMaxConnections.
	MaxConnections int64

	// secretsOverADS has the control plane say where the files of TLS are. See [Shared].
	secretsOverADS bool
}

// Build returns the bootstrap for o. It is a pure function: the same options give the same bootstrap.
func Build(o Options) (*bootstrapv3.Bootstrap, error) {
	if o.AdminSocket == "" {
		return nil, errors.New("an Envoy needs an admin socket")
	}
	b, err := parts(o)
	if err != nil {
		return nil, err
	}
	b.Admin = &bootstrapv3.Admin{Address: &corev3.Address{Address: &corev3.Address_Pipe{
		Pipe: &corev3.Pipe{Path: o.AdminSocket, Mode: 0o600},
	}}}
	b.DynamicResources.LdsConfig = ads()
	b.StatsConfig = statistics()
	if b.OverloadManager, err = overloadManager(o); err != nil {
		return nil, err
	}
	// Without it the memory of a large body that has been answered stays with the process.
	b.MemoryAllocatorManager = &bootstrapv3.MemoryAllocatorManager{
		BytesToRelease:        64 << 20,
		MemoryReleaseInterval: durationpb.New(time.Second),
	}
	return b, nil
}

// parts are what every Envoy needs.
func parts(o Options) (*bootstrapv3.Bootstrap, error) {
	if o.NodeID == "" {
		return nil, errors.New("an Envoy needs a node id")
	}
	extProc, err := extProcCluster(o)
	if err != nil {
		return nil, fmt.Errorf("the ext_proc cluster: %w", err)
	}
	xds, err := xdsCluster(o)
	if err != nil {
		return nil, fmt.Errorf("the control plane's cluster: %w", err)
	}
	runtime, err := layeredRuntime()
	if err != nil {
		return nil, err
	}
	var listeners []*listenerv3.Listener
	if socket := o.ExtProc.pipe(); socket != "" {
		again, err := againListener(socket)
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, again)
	}
	return &bootstrapv3.Bootstrap{
		Node:             &corev3.Node{Id: o.NodeID, Cluster: envoy.RoleEnvoy},
		DynamicResources: dynamicResources(),
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Clusters:  []*clusterv3.Cluster{extProc, xds, deadEnd()},
			Listeners: listeners,
		},
		LayeredRuntime: runtime,
		// A client that Envoy drops because no stream was opened for 50 s, its default, takes a stream that is being closed
		// gracefully down with it: Envoy crashed when an answer took longer than that on a quiet gateway. There are no more
		// of these clients than there are filters.
		GrpcAsyncClientManagerConfig: &bootstrapv3.Bootstrap_GrpcAsyncClientManagerConfig{
			MaxCachedEntryIdleDuration: durationpb.New(365 * 24 * time.Hour),
		},
	}, nil
}

// YAML returns the bootstrap for o as the text of the file that Envoy is started with.
func YAML(o Options) ([]byte, error) {
	b, err := Build(o)
	if err != nil {
		return nil, err
	}
	return checkedYAML(b)
}

// PartsYAML returns the YAML that an Envoy run by others needs, with listeners of its own: it takes routes,
// clusters, filters and certificates from the control plane. It leaves out the admin interface and the limits,
// which are the others' choice.
func PartsYAML(o Options, listeners ...*listenerv3.Listener) ([]byte, error) {
	b, err := parts(o)
	if err != nil {
		return nil, err
	}
	b.StaticResources.Listeners = append(b.StaticResources.Listeners, listeners...)
	return checkedYAML(b)
}

func checkedYAML(b *bootstrapv3.Bootstrap) ([]byte, error) {
	if err := b.ValidateAll(); err != nil {
		return nil, fmt.Errorf("checking the bootstrap: %w", err)
	}
	return asYAML(b)
}

// asYAML writes a message as Envoy reads it from a file.
func asYAML(m proto.Message) ([]byte, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("writing a file for Envoy: %w", err)
	}
	return yaml.JSONToYAML(text)
}

// ads says that resources come over the stream that dynamicResources opens.
func ads() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
}

// dynamicResources has Envoy fetch everything over one delta ADS stream, and try again soon when the control plane is
// not there: the default is to wait for up to 30 seconds.
func dynamicResources() *bootstrapv3.Bootstrap_DynamicResources {
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
		CdsConfig: ads(),
	}
}

// layeredRuntime lets the ext_proc service see the end of an HTTP stream as the end of its own. A reset would take 10
// thousand instructions less for a request, but drop what Envoy has shown and the service has not taken yet: a part of
// the answer that the provider bills.
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
