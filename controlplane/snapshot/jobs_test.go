package snapshot

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/envoy"
)

func TestTheJobServiceIsToldWhatIsItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		j := b.connect(t, envoy.RoleJobs)
		j.subscribe(jobsProviders)
		j.quiet()
		b.Publish(update(1, providerOf("a", 1), jobsProviderOf("a", 1)))
		r := j.next()
		require.Equal(t, "1", r.GetSystemVersionInfo())
		require.Equal(t, []string{"a"}, names(r))
		j.ack(r)
		require.Equal(t, 1, b.Status().Clients[envoy.RoleJobs])

		b.Publish(update(2, providerOf("b", 1), jobsProviderOf("b", 1)))
		r = j.next()
		require.Equal(t, []string{"b"}, names(r))
		require.Equal(t, []string{"a"}, r.GetRemovedResources())
		j.ack(r)
		j.quiet()
		j.cancel()
		<-j.ended
		require.Zero(t, b.Status().Clients[envoy.RoleJobs])
	})
}

func TestWhatTheJobServiceRefusesIsServedToTheOthers(t *testing.T) {
	for name, message := range map[string]string{"which it names": "a: unknown vendor", "in general terms": "no"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				e, x, j := b.connect(t, envoy.RoleEnvoy), b.connect(t, envoy.RoleExtProc), b.connect(t, envoy.RoleJobs)
				e.subscribe(clusters)
				x.subscribe(providers)
				j.subscribe(jobsProviders)
				b.Publish(update(1, providerOf("a", 1), jobsProviderOf("a", 1), providerOf("b", 1), jobsProviderOf("b", 1)))
				e.takeAll()
				x.takeAll()
				j.nack(j.next(), message)
				e.quiet()
				x.quiet()
				j.quiet()
				require.Equal(t, []string{"a", "b"}, x.holds())
				require.Empty(t, b.Status().Errors)
				require.EqualValues(t, 1, b.nacks(t))

				// What is good is found out without it: what Envoy refuses next falls back to that.
				b.Publish(update(2, providerOf("a", 2), jobsProviderOf("a", 2), providerOf("b", 1), jobsProviderOf("b", 1)))
				e.nack(e.next(), "a/first is bad")
				e.takeAll()
				x.takeAll()
				require.Equal(t, []string{"a", "b"}, x.holds())
				require.NotEmpty(t, b.ObjectError("Provider", "a"))
				late := b.connect(t, envoy.RoleEnvoy)
				late.subscribe(clusters)
				late.takeAll()
				require.Equal(t, []string{"a/first", "a/retry", "b/first", "b/retry"}, late.holds())
			})
		})
	}
}
