package snapshot

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
)

var errTest = errors.New("vendor: there is no such vendor")

func TestARefusedChangeFallsBackToTheLastGoodForm(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		e, x := b.connect(t, envoy.RoleEnvoy), b.connect(t, envoy.RoleExtProc)
		e.subscribe(clusters)
		x.subscribe(providers)
		b.Publish(update(1, providerOf("a", 1), providerOf("b", 1)))
		e.takeAll()
		x.takeAll()
		e.takeAll()
		good := map[string]string{"b/first": e.has["b/first"], "b/retry": e.has["b/retry"]}

		b.Publish(update(2, providerOf("a", 2), providerOf("b", 2)))
		r := e.next()
		require.Len(t, r.GetResources(), 4)
		e.nack(r, "Error adding/updating cluster(s) b/first: no good")

		// Envoy may have lost the valid siblings, so they are sent again, and b as it was.
		r = e.next()
		require.Equal(t, []string{"a/first", "a/retry", "b/first", "b/retry"}, names(r))
		e.ack(r)
		require.Equal(t, good["b/first"], e.has["b/first"])
		require.Equal(t, good["b/retry"], e.has["b/retry"])
		// The ext_proc service gets the new a, and never the new b.
		r = x.next()
		require.Equal(t, []string{"a"}, names(r))
		x.ack(r)
		e.quiet()
		x.quiet()

		require.Equal(t, "refused by the data plane: Error adding/updating cluster(s) b/first: no good",
			b.ObjectError(xds.KindProvider, "b"))
		require.Empty(t, b.ObjectError(xds.KindProvider, "a"))
		require.EqualValues(t, 1, b.nacks(t))
		require.Equal(t, 1, b.logs.FilterMessage("a client has refused configuration").Len())
	})
}

func TestARefusedObjectThatIsNewIsLeftOut(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		e, x := b.connect(t, envoy.RoleEnvoy), b.connect(t, envoy.RoleExtProc)
		e.subscribe(clusters)
		x.subscribe(providers)
		b.Publish(update(1, providerOf("a", 1), providerOf("b", 1)))
		e.nack(e.next(), "b/retry: no good")
		r := e.next()
		require.Equal(t, []string{"a/first", "a/retry"}, names(r))
		e.ack(r)
		require.Equal(t, []string{"a"}, names(x.next()), "nothing is planned to clusters that Envoy does not have")
		time.Sleep(time.Hour) // what was never taken does not linger, and nothing is tried again by itself
		e.quiet()
	})
}

func TestAChangedObjectIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		e := b.connect(t, envoy.RoleEnvoy)
		e.subscribe(clusters)
		b.Publish(update(1, providerOf("a", 1)))
		e.nack(e.next(), "a/first: no good")
		e.takeAll()
		require.NotEmpty(t, b.ObjectError(xds.KindProvider, "a"))

		b.Publish(update(2, providerOf("a", 1), providerOf("b", 1)))
		r := e.next()
		require.Equal(t, []string{"b/first", "b/retry"}, names(r), "what was refused is not sent again while it is the same")
		e.ack(r)
		b.Publish(update(3, providerOf("a", 2), providerOf("b", 1)))
		r = e.next()
		require.Equal(t, []string{"a/first", "a/retry"}, names(r))
		e.ack(r)
		synctest.Wait()
		require.Empty(t, b.ObjectError(xds.KindProvider, "a"))
	})
}

func TestARefusalThatNamesNothingIsTrackedDownOneObjectAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		e := b.connect(t, envoy.RoleEnvoy)
		e.subscribe(clusters)
		b.Publish(update(1, providerOf("a", 1), providerOf("b", 1), providerOf("c", 1), providerOf("d", 1)))
		refused := 0
		for {
			synctest.Wait()
			if len(e.toClient) == 0 {
				break
			}
			r := e.next()
			if mentionsAny(r, "b/first", "d/first") {
				refused++
				e.nack(r, "Proto constraint validation failed")
				continue
			}
			e.ack(r)
		}
		require.Equal(t, []string{"a/first", "a/retry", "c/first", "c/retry"}, e.holds())
		require.Equal(t, 3, refused, "all together, then b and d alone")
		for name, bad := range map[string]bool{"a": false, "b": true, "c": false, "d": true} {
			require.Equal(t, bad, b.ObjectError(xds.KindProvider, name) != "", name)
		}
	})
}

func mentionsAny(r *discoveryv3.DeltaDiscoveryResponse, wanted ...string) bool {
	for _, name := range names(r) {
		for _, w := range wanted {
			if name == w {
				return true
			}
		}
	}
	return false
}

func TestAClientThatRefusesEverythingIsAnsweredABoundedNumberOfTimes(t *testing.T) {
	for _, message := range []string{"no", "a/first b/first c/first: no", "b/retry: no"} {
		t.Run(message, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				e, x := b.connect(t, envoy.RoleEnvoy), b.connect(t, envoy.RoleExtProc)
				e.subscribe(clusters)
				x.subscribe(providers)
				b.Publish(update(1, providerOf("a", 1), providerOf("b", 1), providerOf("c", 1)))
				e.takeAll()
				x.takeAll()
				b.Publish(update(2, providerOf("a", 2), providerOf("b", 2), providerOf("c", 2)))
				count := 0
				for synctest.Wait(); len(e.toClient) > 0; synctest.Wait() {
					count++
					require.Less(t, count, 20, "a loop of refusals")
					e.nack(e.next(), message)
				}
				x.takeAll()
				require.NotZero(t, count)
				require.EqualValues(t, count, b.nacks(t))
			})
		})
	}
}

func TestAnOddClientDoesNotTakeServiceFromTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		e := b.connect(t, envoy.RoleEnvoy)
		e.subscribe(clusters)
		b.Publish(update(1, providerOf("a", 1), providerOf("b", 1)))
		e.takeAll()
		odd := b.connect(t, envoy.RoleEnvoy)
		odd.subscribe(clusters)
		odd.nack(odd.next(), "something is wrong")
		odd.quiet()
		e.quiet()
		require.EqualValues(t, 1, b.nacks(t))
		require.Empty(t, b.Status().Errors)
	})
}

func TestWhatExtProcRefusesIsTakenBackEverywhere(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		e, x := b.connect(t, envoy.RoleEnvoy), b.connect(t, envoy.RoleExtProc)
		e.subscribe(clusters)
		x.subscribe(providers)
		b.Publish(update(1, providerOf("a", 1), providerOf("b", 1)))
		e.takeAll()
		x.takeAll()
		first := e.has["a/first"]
		b.Publish(update(2, providerOf("a", 2), providerOf("b", 1)))
		e.takeAll()
		require.NotEqual(t, first, e.has["a/first"])
		x.nack(x.next(), `provider "a": unknown vendor`)
		x.takeAll()
		e.takeAll()
		require.Equal(t, first, e.has["a/first"])
		require.Equal(t, []string{"a", "b"}, x.holds())
		require.Contains(t, b.ObjectError(xds.KindProvider, "a"), "unknown vendor")
	})
}

func TestALingeringClusterThatIsRefusedLeaves(t *testing.T) {
	for _, message := range []string{"b/first b/retry: no good", "no good"} {
		t.Run(message, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				e := b.connect(t, envoy.RoleEnvoy)
				e.subscribe(clusters)
				b.Publish(update(1, providerOf("a", 1), providerOf("b", 1)))
				e.takeAll()
				b.Publish(update(2, providerOf("a", 1)))
				e.takeAll()
				late := b.connect(t, envoy.RoleEnvoy)
				late.subscribe(clusters)
				late.nack(late.next(), message)
				late.takeAll()
				e.takeAll()
				time.Sleep(time.Minute)
				late.takeAll()
				e.takeAll()
				require.Equal(t, []string{"a/first", "a/retry"}, e.holds())
				require.Empty(t, b.Status().Errors)
				require.EqualValues(t, 1, b.nacks(t))
			})
		})
	}
}

func TestARefusalOfWhatHasBeenReplacedChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		e := b.connect(t, envoy.RoleEnvoy)
		e.subscribe(clusters)
		b.Publish(update(1, providerOf("a", 1)))
		r := e.next()
		b.Publish(update(2, providerOf("a", 2)))
		time.Sleep(2 * time.Second) // beyond the wait for the first one's acknowledgement
		e.nack(r, "a/first: no good")
		r = e.next()
		require.Equal(t, "2", r.GetSystemVersionInfo())
		e.ack(r)
		synctest.Wait()
		require.Empty(t, b.ObjectError(xds.KindProvider, "a"))
	})
}

func TestMentions(t *testing.T) {
	for _, c := range []struct {
		message, name string
		want          bool
	}{
		{"Error adding/updating cluster(s) a/first: x, b/retry: y", "a/first", true},
		{"Error adding/updating cluster(s) a/first: x, b/retry: y", "b/retry", true},
		{"cluster aa/first: x", "a/first", false},
		{"cluster a/first-2: x", "a/first", false},
		{"cluster a/first-2, a/first", "a/first", true},
		{"'a/first'.", "a/first", true},
		{"a/first", "a/first", true},
		{"", "a/first", false},
		{"anything", "", false},
	} {
		require.Equal(t, c.want, mentions(c.message, c.name), "%q in %q", c.name, c.message)
	}
}

func TestShortenCutsBetweenRunes(t *testing.T) {
	require.Equal(t, "short", shorten("short"))
	require.Equal(t, strings.Repeat("é", maxMessage/2)+"…", shorten(strings.Repeat("é", maxMessage)))
}
