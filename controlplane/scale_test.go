package controlplane

import (
	"context"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/testenv"
)

// manyObjects returns a configuration of n objects, of which one in ten is a provider and the rest are models.
func manyObjects(n int) configstore.State {
	state := configstore.State{Revision: 1, Objects: map[string]map[string]configv1.Object{
		xds.KindProvider: {}, xds.KindModel: {}, xds.KindKey: {}}}
	for i := range n / 10 {
		p := &configv1.Provider{Name: fmt.Sprintf("provider-%05d", i), Vendor: "openai",
			Endpoint:   fmt.Sprintf("https://host-%05d.example.com/v1", i),
			Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: fmt.Sprintf("sk-%d", i)}}}
		state.Objects[xds.KindProvider][p.GetName()] = p
	}
	for i := range n - n/10 {
		m := modelAt(i, n, 0)
		state.Objects[xds.KindModel][m.GetName()] = m
	}
	return state
}

// modelAt returns one of the models of manyObjects, in one of its versions.
func modelAt(i, n, version int) *configv1.Model {
	return &configv1.Model{Name: fmt.Sprintf("model-%05d", i), Targets: []*configv1.Target{
		{Provider: fmt.Sprintf("provider-%05d", i%(n/10)), Model: fmt.Sprintf("gpt-%d", version)},
		{Provider: fmt.Sprintf("provider-%05d", (i+1)%(n/10)), Model: "fallback"},
	}}
}

// withModel returns the state after a change of one model, as the store delivers it.
func withModel(before configstore.State, m *configv1.Model) configstore.State {
	after := configstore.State{Revision: before.Revision + 1, Objects: maps.Clone(before.Objects)}
	after.Objects[xds.KindModel] = maps.Clone(before.Objects[xds.KindModel])
	after.Objects[xds.KindModel][m.GetName()] = m
	return after
}

// follows connects a client of a role that takes all that comes of the types, until the benchmark ends.
func follows(b *testing.B, socket, role string, types ...string) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(b.Context(),
		grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(256<<20))
	require.NoError(b, err)
	for _, typ := range types {
		require.NoError(b, stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typ,
			ResourceNamesSubscribe: []string{"*"}, Node: &corev3.Node{Id: role, Cluster: role}}))
	}
	go func() {
		for {
			r, err := stream.Recv()
			if err != nil || stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(),
				ResponseNonce: r.GetNonce()}) != nil {
				return
			}
		}
	}()
}

// servedBench is a control plane without a store that has clients of every role.
func servedBench(b *testing.B, state configstore.State) *Server {
	dir := b.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(b, err)
	root, err := secret.LoadRoot(filepath.Join(dir, "root"))
	require.NoError(b, err)
	s, err := New(Config{XDS: l, Root: root, Providers: all.Providers(), SystemCA: "/etc/ssl/certs/ca-certificates.crt",
		Logger: zap.NewNop(), Registerer: prometheus.NewRegistry()})
	require.NoError(b, err)
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 2)
	go func() { ended <- s.publisher.Run(ctx) }()
	go func() { ended <- s.serve(ctx) }()
	b.Cleanup(func() { stop(); <-ended; <-ended })
	s.publisher.Publish(s.build(state))
	socket := l.Addr().String()
	follows(b, socket, envoy.RoleEnvoy, xds.TypeURL(&clusterv3.Cluster{}))
	follows(b, socket, envoy.RoleExtProc, xds.TypeURL(&configv1.Key{}), xds.TypeURL(&configv1.ResolvedProvider{}),
		xds.TypeURL(&configv1.Model{}), xds.TypeURL(&configv1.Settings{}))
	follows(b, socket, envoy.RoleJobs, xds.TypeURL(&configv1.Provider{}), xds.TypeURL(&configv1.Model{}))
	require.Eventually(b, func() bool {
		lacking, published := s.publisher.Await(ctx, state.Revision)
		return published && len(lacking) == 0 && len(s.Status().Clients) == 3
	}, time.Minute, time.Millisecond)
	return s
}

// BenchmarkOneChange changes one model among many, from the store's state on until a client of each role has
// acknowledged it. "cpu-ms/op" is of the whole process, with these clients; the time has a pause of 5 ms.
func BenchmarkOneChange(b *testing.B) {
	for _, n := range []int{4_000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			state := manyObjects(n)
			began := testenv.CPU(b)
			s := servedBench(b, state)
			b.Logf("the first configuration took %v of CPU", testenv.CPU(b)-began)
			runtime.GC()
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			b.Logf("%d MB in use", memory.HeapAlloc>>20)
			began, version := testenv.CPU(b), 0
			for b.Loop() {
				version++
				state = withModel(state, modelAt(version%n/2, n, version))
				s.publisher.Publish(s.build(state))
				lacking, published := s.publisher.Await(b.Context(), state.Revision)
				require.True(b, published)
				require.Empty(b, lacking)
			}
			b.ReportMetric(float64((testenv.CPU(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// BenchmarkStart reads a configuration from etcd, checks it, and publishes it. "change-ms" is the time from the write
// of one changed model until clients of every role have answered, of which the store waits 20 ms for more changes.
func BenchmarkStart(b *testing.B) {
	for _, n := range []int{4_000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			etcd := etcdtest.New(b).Client(b)
			store := filled(b, etcd, n)
			var changing time.Duration
			for b.Loop() {
				s := servedBench(b, configstore.State{})
				ctx, stop := context.WithCancel(b.Context())
				states, done := make(chan configstore.State), make(chan struct{})
				go func() {
					defer close(done)
					store.Run(ctx, func(state configstore.State) { states <- state })
				}()
				first := <-states
				require.Len(b, first.Objects[xds.KindModel], n-n/10)
				s.publisher.Publish(s.build(first))
				_, published := s.publisher.Await(ctx, first.Revision)
				require.True(b, published)

				b.StopTimer()
				began := time.Now()
				_, err := store.Put(ctx, modelAt(0, n, int(began.UnixNano())), configstore.AnyRevision)
				require.NoError(b, err)
				changed := <-states
				s.publisher.Publish(s.build(changed))
				_, published = s.publisher.Await(ctx, changed.Revision)
				require.True(b, published)
				changing += time.Since(began)
				stop()
				<-done
				b.StartTimer()
			}
			b.ReportMetric(float64(changing.Milliseconds())/float64(b.N), "change-ms")
		})
	}
}

// filled returns a store of a configuration of n objects.
func filled(b *testing.B, etcd *clientv3.Client, n int) *configstore.Store {
	vendors := all.Providers()
	store := configstore.New(etcd, func(o configv1.Object) error {
		errs := configv1.ValidateStored(o, func(name string) (configv1.Vendor, bool) {
			_, ok := vendors[name]
			return configv1.Vendor{}, ok
		})
		if len(errs) > 0 {
			return errs
		}
		return nil
	}, zap.NewNop())
	var ops []clientv3.Op
	for kind, objects := range manyObjects(n).Objects {
		for name, o := range objects {
			value, err := configv1.Marshal(o)
			require.NoError(b, err)
			k, ok := configv1.FindKind(kind)
			require.True(b, ok)
			if ops = append(ops, clientv3.OpPut("/modelgate/v1/"+k.Plural+"/"+name, string(value))); len(ops) == 100 {
				_, err := etcd.Txn(b.Context()).Then(ops...).Commit()
				require.NoError(b, err)
				ops = nil
			}
		}
	}
	if len(ops) > 0 {
		_, err := etcd.Txn(b.Context()).Then(ops...).Commit()
		require.NoError(b, err)
	}
	return store
}
