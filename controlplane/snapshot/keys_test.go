package snapshot

import (
	"maps"
	"testing"
	"testing/synctest"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/stream/v3"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
)

func (b *bench) publishKeys(revision int64, changed map[string]*configv1.Key) {
	b.Publish(Update{Revision: revision, Keys: changed})
}

func TestKeysAreSentAsTheyChange(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		early := b.connect(t, envoy.RoleExtProc)
		early.subscribe(keys)
		early.quiet()
		b.publishKeys(7, keysOf("x", "a", "b"))
		r := early.next()
		require.Equal(t, "7", r.GetSystemVersionInfo())
		require.Equal(t, []string{"a", "b"}, names(r))
		k := &configv1.Key{}
		require.NoError(t, r.GetResources()[0].GetResource().UnmarshalTo(k))
		require.Equal(t, "x", k.GetProject())
		text, err := cache.MarshalResource(k)
		require.NoError(t, err)
		require.Equal(t, cache.HashResource(text), r.GetResources()[0].GetVersion(),
			"the same on every replica of the control plane")
		early.ack(r)

		late := b.connect(t, envoy.RoleExtProc)
		late.subscribe(keys)
		r = late.next()
		require.Equal(t, []string{"a", "b"}, names(r))

		b.publishKeys(8, keysOf("y", "b"))
		r2 := early.next()
		require.Equal(t, []string{"b"}, names(r2))
		early.ack(r2)
		changed := keysOf("z", "b", "c")
		changed["a"] = nil
		b.publishKeys(9, changed)
		r2 = early.next()
		require.Equal(t, []string{"b", "c"}, names(r2))
		require.Equal(t, []string{"a"}, r2.GetRemovedResources())
		early.ack(r2)
		b.publishKeys(10, nil)
		early.quiet()

		// One that is slow to answer gets what it has missed, each key once.
		late.quiet()
		late.ack(r)
		r = late.next()
		require.Equal(t, []string{"b", "c"}, names(r))
		require.Equal(t, []string{"a"}, r.GetRemovedResources())
		require.Equal(t, "10", r.GetSystemVersionInfo())
		late.ack(r)
		late.quiet()
		require.Equal(t, early.has, late.has)
	})
}

func TestAClientThatReconnectsIsSentOnlyTheKeysThatItMissed(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.publishKeys(1, keysOf("x", "a", "b", "c"))
		x := b.connect(t, envoy.RoleExtProc)
		x.subscribe(keys)
		x.ack(x.next())
		x.cancel()
		<-x.ended
		changed := keysOf("y", "b", "d")
		changed["a"] = nil
		b.publishKeys(2, changed)

		back := b.connect(t, envoy.RoleExtProc)
		back.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: keys, ResourceNamesSubscribe: []string{"*"},
			InitialResourceVersions: maps.Clone(x.has)})
		r := back.next()
		require.Equal(t, []string{"b", "d"}, names(r))
		require.Equal(t, []string{"a"}, r.GetRemovedResources())
		back.has = x.has
		back.ack(r)
		back.quiet()
		require.Equal(t, []string{"b", "c", "d"}, back.holds())

		// Also one that has all is answered once: it cannot begin before.
		again := b.connect(t, envoy.RoleExtProc)
		again.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: keys, ResourceNamesSubscribe: []string{"*"},
			InitialResourceVersions: maps.Clone(back.has)})
		r = again.next()
		require.Empty(t, r.GetResources())
		require.Empty(t, r.GetRemovedResources())
		again.ack(r)
		again.quiet()
	})
}

func TestARevokedKeyDoesNotWaitForAnEnvoy(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		e, x := b.connect(t, envoy.RoleEnvoy), b.connect(t, envoy.RoleExtProc)
		e.subscribe(clusters)
		x.subscribe(keys)
		u := update(1, providerOf("a", 1))
		u.Keys = keysOf("x", "k")
		b.Publish(u)
		synctest.Wait() // the Envoy never says that it has its clusters
		x.ack(x.next())
		b.publishKeys(2, map[string]*configv1.Key{"k": nil})
		synctest.Wait()
		require.Len(t, x.toClient, 1, "and no time has passed")
		require.Equal(t, []string{"k"}, x.next().GetRemovedResources())
	})
}

func TestKeysThatAreRefusedAreReported(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.publishKeys(1, keysOf("x", "a"))
		x := b.connect(t, envoy.RoleExtProc)
		x.subscribe(keys)
		r := x.next()
		require.True(t, b.Clients()[0].Behind)
		x.nack(r, "a: is odd")
		x.quiet()
		require.False(t, b.Clients()[0].Behind)
		require.Equal(t, "a: is odd", b.Clients()[0].Refused)
		require.EqualValues(t, 1, b.nacks(t))
		require.Equal(t, 1, b.logs.FilterMessage("a client has refused configuration").Len())
		b.publishKeys(2, keysOf("x", "b"))
		require.Equal(t, []string{"b"}, names(x.next()), "the others go on")
	})
}

func TestKeysAreNotServedByName(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.publishKeys(1, keysOf("x", "a"))
		x := b.connect(t, envoy.RoleExtProc)
		x.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: keys, ResourceNamesSubscribe: []string{"a"}})
		require.ErrorIs(t, <-x.ended, errByName)
	})
}

func TestAClientThatIsTooSlowHasToConnectAgain(t *testing.T) {
	c := newKeyCache()
	request := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: keys}
	responses := make(chan cache.DeltaResponse, 1)
	require.NoError(t, c.update(1, keysOf("x", "a")))
	sub := stream.NewDeltaSubscription([]string{"*"}, nil, map[string]string{}, false)
	_, err := c.CreateDeltaWatch(request, sub, responses)
	require.NoError(t, err)
	sub.SetReturnedResources((<-responses).GetReturnedResources())

	many := map[string]*configv1.Key{}
	for i := range 2*maxChanges + 1 {
		many[string(rune(i))] = nil
	}
	for range 3 {
		require.NoError(t, c.update(2, many))
	}
	require.LessOrEqual(t, len(c.changes), 3*maxChanges, "what is remembered is bounded")
	_, err = c.CreateDeltaWatch(request, sub, responses)
	require.ErrorIs(t, err, errTooSlow)

	cancel, err := c.CreateDeltaWatch(request, stream.NewDeltaSubscription([]string{"*"}, nil, map[string]string{},
		false), responses)
	require.NoError(t, err)
	require.Nil(t, cancel)
	sub.SetReturnedResources((<-responses).GetReturnedResources())
	cancel, err = c.CreateDeltaWatch(request, sub, responses)
	require.NoError(t, err)
	require.Len(t, c.watches, 1)
	cancel()
	require.Empty(t, c.watches)
}
