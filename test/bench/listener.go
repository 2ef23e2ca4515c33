package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/envoy/bootstrap"
	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/provider/all"
)

// A listener is the configuration of a gateway's Envoy as the control plane builds it, in one file: what Envoy would
// fetch is in its place. Variants change it.
type listener struct {
	bootstrap *bootstrapv3.Bootstrap
	listener  *listenerv3.Listener
	manager   *hcmv3.HttpConnectionManager
	routes    *routev3.RouteConfiguration
	filters   map[string]proto.Message // of the connection manager, by name
	clusters  []*clusterv3.Cluster
}

const gatewayName = "default"

// newListener builds the configuration of an Envoy that asks the ext_proc service at a socket, with the certificate
// in dir. The gateway that the service belongs to must have the same provider.
func newListener(dir, admin, mock, socket string) (*listener, error) {
	b, err := bootstrap.Build(bootstrap.Options{NodeID: "bench", AdminSocket: admin,
		ExtProc: bootstrap.Addresses{{Pipe: socket}}, XDS: bootstrap.Address{Pipe: socket}, MaxHeapBytes: 1 << 30})
	if err != nil {
		return nil, err
	}
	b.DynamicResources = nil
	built, errs := xds.Build(xds.Input{
		Providers:    []*configv1.ResolvedProvider{{Name: providerName, Provider: mockProvider(mock)}},
		Gateways:     []*configv1.Gateway{{Name: gatewayName, Address: "127.0.0.1"}},
		Certificates: []*configv1.Certificate{{Name: gatewayName}},
	}, xds.Options{Providers: all.Providers()})
	l := &listener{bootstrap: b, filters: map[string]proto.Message{}}
	for _, r := range built {
		switch m := r.Message.(type) {
		case *listenerv3.Listener:
			l.listener = proto.CloneOf(m)
		case *routev3.RouteConfiguration:
			l.routes = proto.CloneOf(m)
			l.routes.ValidateClusters = wrapperspb.Bool(false) // as if they were fetched
		case *clusterv3.Cluster:
			l.clusters = append(l.clusters, proto.CloneOf(m))
		case *corev3.TypedExtensionConfig:
			if l.filters[r.Name], err = m.GetTypedConfig().UnmarshalNew(); err != nil {
				return nil, err
			}
		}
	}
	if l.listener == nil {
		return nil, fmt.Errorf("there is no listener: %v", errs)
	}
	return l, l.open(dir)
}

// first returns the name of the cluster of first attempts.
func (l *listener) first() string {
	i := slices.IndexFunc(l.clusters, func(c *clusterv3.Cluster) bool {
		return strings.HasPrefix(c.GetName(), envoy.FirstCluster(providerName))
	})
	return l.clusters[i].GetName()
}

// open takes the listener apart.
func (l *listener) open(dir string) error {
	chain := l.listener.GetFilterChains()[0]
	l.manager = &hcmv3.HttpConnectionManager{}
	if err := chain.GetFilters()[0].GetTypedConfig().UnmarshalTo(l.manager); err != nil {
		return err
	}
	for _, f := range l.manager.GetHttpFilters() {
		if f.GetTypedConfig() == nil {
			continue // its configuration is a resource
		}
		config, err := f.GetTypedConfig().UnmarshalNew()
		if err != nil {
			return err
		}
		l.filters[f.GetName()] = config
	}
	var shown tlsv3.DownstreamTlsContext
	if err := chain.GetTransportSocket().GetTypedConfig().UnmarshalTo(&shown); err != nil {
		return err
	}
	shown.CommonTlsContext.TlsCertificateSdsSecretConfigs = nil
	shown.CommonTlsContext.TlsCertificates = []*tlsv3.TlsCertificate{{
		CertificateChain: file(filepath.Join(dir, certs.FileServer)),
		PrivateKey:       file(filepath.Join(dir, certs.FileServerKey)),
	}}
	return pack(&chain.GetTransportSocket().ConfigType.(*corev3.TransportSocket_TypedConfig).TypedConfig, &shown)
}

// json puts the listener together again.
func (l *listener) json() ([]byte, error) {
	for _, f := range l.manager.GetHttpFilters() {
		var config *anypb.Any
		if err := pack(&config, l.filters[f.GetName()]); err != nil {
			return nil, err
		}
		f.ConfigType = &hcmv3.HttpFilter_TypedConfig{TypedConfig: config}
	}
	l.manager.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: l.routes}
	manager := l.listener.GetFilterChains()[0].GetFilters()[0].ConfigType.(*listenerv3.Filter_TypedConfig)
	if err := pack(&manager.TypedConfig, l.manager); err != nil {
		return nil, err
	}
	l.bootstrap.StaticResources.Listeners = []*listenerv3.Listener{l.listener}
	l.bootstrap.StaticResources.Clusters = append(l.bootstrap.StaticResources.Clusters, l.clusters...)
	return protojson.Marshal(l.bootstrap)
}

func pack(to **anypb.Any, m proto.Message) (err error) {
	*to, err = anypb.New(m)
	return err
}

func file(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}

// extProc returns the configuration of the ext_proc filter.
func (l *listener) extProc() *extprocv3.ExternalProcessor {
	for _, f := range l.manager.GetHttpFilters() {
		if config, ok := l.filters[f.GetName()].(*extprocv3.ExternalProcessor); ok {
			return config
		}
	}
	return nil
}

// drop removes a filter.
func (l *listener) drop(name string) {
	l.manager.HttpFilters = slices.DeleteFunc(l.manager.GetHttpFilters(),
		func(f *hcmv3.HttpFilter) bool { return f.GetName() == name })
	for _, r := range l.routes.GetVirtualHosts()[0].GetRoutes() {
		maps.DeleteFunc(r.GetTypedPerFilterConfig(), func(of string, _ *anypb.Any) bool { return of == name })
	}
}

// variantStarts returns how Envoy alone, the floor, and an Envoy for each variant of a gateway's listener are started.
// The variants ask the ext_proc service of the gateway in a folder, by a key.
func variantStarts(gateway, mock, key string) ([]variantStart, error) {
	sockets, _, err := process.SocketDir(gateway) // the gateway's, which removes it
	if err != nil {
		return nil, err
	}
	at := func(start func(context.Context, options, string, string) (*target, error)) start {
		return func(ctx context.Context, o options, dir string) (*target, error) { return start(ctx, o, dir, mock) }
	}
	all := []variantStart{{targetEnvoy, at(startEnvoy)}, {targetFloor, at(startFloor)}}
	for _, v := range variants() {
		all = append(all, variantStart{v.name, func(ctx context.Context, o options, dir string) (*target, error) {
			t, err := startVariant(ctx, v, o, dir, func(admin string) (*listener, error) {
				return newListener(gateway, admin, mock, filepath.Join(sockets, "extproc.sock"))
			})
			if err == nil {
				t.job.Key = key
			}
			return t, err
		}})
	}
	return all, nil
}

type variantStart struct {
	name  string
	start start
}

// startVariant starts an Envoy in a folder with a variant of what whole returns.
func startVariant(ctx context.Context, v variant, o options, dir string,
	whole func(admin string) (*listener, error)) (*target, error) {
	e, err := startConfigured(ctx, o.envoy, dir, envoy.GatewayListener+gatewayName, func(admin string) ([]byte, error) {
		l, err := whole(admin)
		if err != nil {
			return nil, err
		}
		v.change(l)
		return l.json()
	})
	if err != nil {
		return nil, err
	}
	return &target{name: v.name, stop: e.stop, job: plainJob(e.address, filepath.Dir(dir), e.pid, partEnvoy)}, nil
}
