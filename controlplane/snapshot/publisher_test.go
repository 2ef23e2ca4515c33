package snapshot

import (
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
)

func TestNothingIsServedBeforeTheFirstConfiguration(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		e := b.connect(t, envoy.RoleEnvoy)
		e.subscribe(clusters)
		e.quiet()
		require.False(t, b.Status().Ready)

		b.Publish(update(7, providerOf("a", 1)))
		r := e.next()
		require.Equal(t, []string{"a/first", "a/retry"}, names(r))
		e.ack(r)
		<-b.Published()
		require.True(t, b.Status().Ready)
	})
}

func TestEveryResponseCarriesTheRevisionAndOnlyWhatChanged(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		e, x := b.connect(t, envoy.RoleEnvoy), b.connect(t, envoy.RoleExtProc)
		e.subscribe(clusters)
		x.subscribe(providers)
		b.Publish(update(7, providerOf("a", 1), providerOf("b", 1)))
		r := e.next()
		require.Equal(t, "7", r.GetSystemVersionInfo())
		e.ack(r)
		r = x.next()
		require.Equal(t, "7", r.GetSystemVersionInfo())
		require.Equal(t, []string{"a", "b"}, names(r))
		x.ack(r)

		b.Publish(update(9, providerOf("a", 1), providerOf("b", 2)))
		r = e.next()
		require.Equal(t, "9", r.GetSystemVersionInfo())
		require.Equal(t, []string{"b/first", "b/retry"}, names(r))
		e.ack(r)
		r = x.next()
		require.Equal(t, "9", r.GetSystemVersionInfo())
		require.Equal(t, []string{"b"}, names(r))
		x.ack(r)

		synctest.Wait()
		require.Equal(t, Status{
			Ready: true, Revision: 9, Errors: map[xds.Object]string{},
			Clients: map[string]int{envoy.RoleEnvoy: 1, envoy.RoleExtProc: 1},
		}, b.Status())
	})
}

func TestRolesGetOnlyWhatIsTheirs(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		u := update(1, providerOf("a", 1), jobsProviderOf("a", 1))
		u.Keys = keysOf("", "k")
		b.Publish(u)
		<-b.Published()
		for role, foreign := range map[string][]string{
			envoy.RoleEnvoy:   {providers, keys, jobsProviders},
			envoy.RoleExtProc: {clusters, jobsProviders},
			envoy.RoleJobs:    {clusters, providers, keys},
		} {
			p := b.connect(t, role)
			for _, typeURL := range foreign {
				p.subscribe(typeURL)
				require.Empty(t, p.next().GetResources(), "%s got %s", role, typeURL)
				// By name, too.
				p.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: []string{"a", "k", "a/first"}})
				require.Empty(t, p.next().GetResources(), "%s got %s", role, typeURL)
				p.quiet()
			}
		}
	})
}

func TestClientsWithoutARoleAreRefused(t *testing.T) {
	for _, role := range []string{"", "modelgate", "modelgate-envoy2"} {
		t.Run("cluster "+role, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				b.Publish(update(1, providerOf("a", 1)))
				p := b.connect(t, role)
				p.subscribe(clusters)
				require.Equal(t, codes.PermissionDenied, status.Code(<-p.ended))
				p.quiet()
				require.Empty(t, b.Status().Clients)
			})
		})
	}
}

func TestAStreamCannotChangeItsRole(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.Publish(update(1, providerOf("a", 1)))
		p, other := b.connect(t, envoy.RoleEnvoy), b.connect(t, envoy.RoleExtProc)
		p.subscribe(clusters)
		p.ack(p.next())
		p.node = other.node
		p.subscribe(providers)
		require.Equal(t, codes.PermissionDenied, status.Code(<-p.ended))
		p.quiet()
	})
}

func TestExtProcLearnsOfAProviderWhenEveryEnvoyHasItsClusters(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		one, two, x := b.connect(t, envoy.RoleEnvoy), b.connect(t, envoy.RoleEnvoy), b.connect(t, envoy.RoleExtProc)
		one.subscribe(clusters)
		two.subscribe(clusters)
		x.subscribe(providers)
		b.Publish(update(1, providerOf("a", 1)))
		one.ack(one.next())
		x.quiet()
		two.ack(two.next())
		require.Equal(t, []string{"a"}, names(x.next()))
	})
}

func TestExtProcDoesNotWaitForAnEnvoyThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		hangs, x := b.connect(t, envoy.RoleEnvoy), b.connect(t, envoy.RoleExtProc)
		hangs.subscribe(clusters)
		x.subscribe(providers)
		b.Publish(update(1, providerOf("a", 1)))
		hangs.next()
		start := time.Now()
		require.Equal(t, []string{"a"}, names(x.next()))
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestARemovedClusterLingersUntilRetriesAreOver(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		e, x := b.connect(t, envoy.RoleEnvoy), b.connect(t, envoy.RoleExtProc)
		e.subscribe(clusters)
		x.subscribe(providers)
		b.Publish(update(1, providerOf("a", 1), providerOf("b", 1)))
		e.takeAll()
		x.takeAll()

		b.Publish(update(2, providerOf("a", 1)))
		start := time.Now()
		require.Equal(t, []string{"b"}, x.next().GetRemovedResources())
		e.quiet()
		// A change in between does not shorten it, and an Envoy that comes later gets them as well.
		time.Sleep(10 * time.Second)
		b.Publish(update(3, providerOf("a", 2)))
		r := e.next()
		require.Empty(t, r.GetRemovedResources())
		e.ack(r)
		late := b.connect(t, envoy.RoleEnvoy)
		late.subscribe(clusters)
		r = late.next()
		require.Equal(t, []string{"a/first", "a/retry", "b/first", "b/retry"}, names(r))
		late.ack(r)

		require.ElementsMatch(t, []string{"b/first", "b/retry"}, e.next().GetRemovedResources())
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

func TestAProviderThatComesBackDoesNotLeave(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		e := b.connect(t, envoy.RoleEnvoy)
		e.subscribe(clusters)
		b.Publish(update(1, providerOf("a", 1)))
		e.takeAll()
		b.Publish(update(2))
		e.takeAll()
		time.Sleep(10 * time.Second)
		b.Publish(update(3, providerOf("a", 1)))
		time.Sleep(time.Minute)
		e.takeAll()
		require.Equal(t, []string{"a/first", "a/retry"}, e.holds())
		require.Equal(t, 1, e.responses, "nothing had to be sent again")
	})
}

func TestAnObjectThatCannotBeBuiltKeepsItsLastForm(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		e := b.connect(t, envoy.RoleEnvoy)
		e.subscribe(clusters)
		b.Publish(update(1, providerOf("a", 1), providerOf("b", 1)))
		e.takeAll()
		broken := xds.Object{Kind: xds.KindProvider, Name: "b"}
		b.Publish(Update{Revision: 2, Objects: objectsOf(providerOf("a", 2)),
			Errors: []xds.ObjectError{{Object: broken, Err: errTest}}})
		r := e.next()
		require.Equal(t, []string{"a/first", "a/retry"}, names(r))
		require.Empty(t, r.GetRemovedResources())
		e.ack(r)
		require.Equal(t, errTest.Error(), b.ObjectError(xds.KindProvider, "b"))
		require.Equal(t, map[xds.Object]string{broken: errTest.Error()}, b.Status().Errors)

		time.Sleep(time.Hour)
		e.takeAll()
		require.Equal(t, []string{"a/first", "a/retry", "b/first", "b/retry"}, e.holds())
		b.Publish(update(3, providerOf("a", 2), providerOf("b", 1)))
		e.quiet()
		require.Empty(t, b.ObjectError(xds.KindProvider, "b"))
	})
}

func TestAnObjectThatIsWithdrawnIsNotServed(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		x := b.connect(t, envoy.RoleExtProc)
		x.subscribe(providers)
		b.Publish(update(1, providerOf("a", 1), providerOf("b", 1)))
		x.takeAll()
		expired := xds.ObjectError{Object: xds.Object{Kind: xds.KindProvider, Name: "b"}, Err: errTest, Withdraws: true}
		b.Publish(Update{Revision: 1, Objects: objectsOf(providerOf("a", 1)), Errors: []xds.ObjectError{expired}})
		x.takeAll()
		require.Equal(t, []string{"a"}, x.holds())
		require.Equal(t, errTest.Error(), b.ObjectError(xds.KindProvider, "b"))
		b.Publish(update(1, providerOf("a", 1), providerOf("b", 1)))
		x.takeAll()
		require.Equal(t, []string{"a", "b"}, x.holds())
	})
}

func TestAClientThatReconnectsIsSentWhatItLacks(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		e := b.connect(t, envoy.RoleEnvoy)
		e.subscribe(clusters)
		b.Publish(update(1, providerOf("a", 1), providerOf("b", 1)))
		e.takeAll()
		e.cancel()
		<-e.ended

		b.Publish(update(2, providerOf("a", 1), providerOf("b", 2)))
		synctest.Wait()
		again := b.connect(t, envoy.RoleEnvoy)
		again.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: clusters, InitialResourceVersions: e.has})
		require.Equal(t, []string{"b/first", "b/retry"}, names(again.next()))
	})
}

func TestNewRefusesMetricsThatExistAlready(t *testing.T) {
	r := prometheus.NewRegistry()
	_, err := New(Options{Logger: zap.NewNop(), Registerer: r})
	require.NoError(t, err)
	_, err = New(Options{Logger: zap.NewNop(), Registerer: r})
	require.Error(t, err)
}
