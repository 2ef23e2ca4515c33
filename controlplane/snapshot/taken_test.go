package snapshot

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/envoy"
)

// lackingAt returns the roles of those who have not taken a revision a second later; not published counts as one of
// them.
func (b *bench) lackingAt(t *testing.T, revision int64) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Second)
	defer cancel()
	lacking, published := b.Await(ctx, revision)
	roles := []string{}
	if !published {
		roles = append(roles, "unpublished")
	}
	for _, c := range lacking {
		roles = append(roles, c.Role)
	}
	return roles
}

func TestARevisionIsTakenWhenEveryClientHasAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		require.Equal(t, []string{"unpublished"}, b.lackingAt(t, 3))
		b.Publish(Update{Revision: 3, Objects: objectsOf(providerOf("a", 1)), Keys: keysOf("x", "k")})
		require.Empty(t, b.lackingAt(t, 3), "nobody is connected")
		e, x := b.connect(t, envoy.RoleEnvoy), b.connect(t, envoy.RoleExtProc)
		e.subscribe(clusters)
		x.subscribe(providers)
		e.takeAll()
		require.Equal(t, []string{envoy.RoleExtProc}, b.lackingAt(t, 3))
		x.takeAll()
		require.Equal(t, []string{envoy.RoleExtProc}, b.lackingAt(t, 3), "it has not asked for keys yet")
		x.subscribe(keys)
		x.takeAll()
		require.Empty(t, b.lackingAt(t, 3))

		// A key alone concerns nobody but the ext_proc service.
		b.publishKeys(5, keysOf("y", "k"))
		b.Publish(Update{Revision: 5, Objects: objectsOf(providerOf("a", 1))})
		require.Equal(t, []string{envoy.RoleExtProc}, b.lackingAt(t, 5))
		x.takeAll()
		require.Empty(t, b.lackingAt(t, 5))

		// What concerns no key is not held up by keys.
		b.Publish(update(7, providerOf("a", 2)))
		e.takeAll()
		require.Equal(t, []string{envoy.RoleExtProc}, b.lackingAt(t, 7))
		x.takeAll()
		require.Empty(t, b.lackingAt(t, 7))

		// What is gone has to be answered for, too.
		b.Publish(Update{Revision: 9})
		require.Equal(t, []string{envoy.RoleExtProc}, b.lackingAt(t, 9), "in Envoy it lingers")
		x.takeAll()
		require.Empty(t, b.lackingAt(t, 9))
		require.ElementsMatch(t, []string{"unpublished", envoy.RoleEnvoy, envoy.RoleExtProc}, b.lackingAt(t, 10))
		x.cancel()
		e.cancel()
		synctest.Wait()
		require.Empty(t, b.lackingAt(t, 9))
	})
}

func TestARevisionThatIsRefusedIsTakenOnceThatIsDecided(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.Publish(update(3, providerOf("a", 1)))
		e := b.connect(t, envoy.RoleEnvoy)
		e.subscribe(clusters)
		e.takeAll()
		b.Publish(update(5, providerOf("a", 2), providerOf("b", 2)))
		e.nack(e.next(), "something is not good")
		require.NotEmpty(t, b.lackingAt(t, 5), "each is tried alone")
		e.takeAll()
		require.Empty(t, b.lackingAt(t, 5))
	})
}

func TestAClientThatAsksByNameNeedsNoMore(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.Publish(update(3, providerOf("a", 1), providerOf("b", 1)))
		e := b.connect(t, envoy.RoleEnvoy)
		e.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: clusters,
			ResourceNamesSubscribe: []string{envoy.FirstCluster("a"), "none"}})
		require.NotEmpty(t, b.lackingAt(t, 3))
		e.takeAll()
		require.Empty(t, b.lackingAt(t, 3))
	})
}

func TestWhatIsTakenIsHeardOf(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.Publish(update(3, providerOf("a", 1)))
		e := b.connect(t, envoy.RoleEnvoy)
		e.subscribe(clusters)
		taken := make(chan int64, 1)
		go func() {
			revision, err := b.NextTaken(b.ctx, 2)
			if err == nil {
				taken <- revision
			}
		}()
		synctest.Wait()
		require.Empty(t, taken)
		e.takeAll()
		require.EqualValues(t, 3, <-taken)
	})
}
