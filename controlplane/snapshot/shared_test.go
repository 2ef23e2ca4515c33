package snapshot

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/envoy"
)

func TestEnvoysOfOthersAreGivenAChangeBeforeTheExtProcService(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		x := b.connect(t, envoy.RoleExtProc)
		x.subscribe(providers)
		b.Publish(update(7, providerOf("a", 1)))
		x.ack(x.next())
		first, changed := b.Content()
		require.Len(t, slices.Collect(first.All()), 2, "clusters")
		b.Shared(first.Digest)

		b.Publish(update(8, providerOf("a", 2)))
		<-changed
		second, _ := b.Content()
		require.NotEqual(t, first.Digest, second.Digest)
		x.quiet()
		require.Len(t, slices.Collect(second.All()), 2, "the same clusters in another form")
		b.Shared(second.Digest)
		x.ack(x.next())

		b.Publish(update(9, providerOf("b", 1)))
		synctest.Wait()
		third, _ := b.Content()
		require.Len(t, slices.Collect(third.All()), 4, "the ext_proc service still plans with those that go")
		b.Shared(third.Digest)
		x.ack(x.next())

		began := time.Now()
		b.Publish(update(10, providerOf("b", 3)))
		x.ack(x.next())
		require.Equal(t, time.Second, time.Since(began), "who does not ask holds up nobody for longer")
	})
}

func TestTheDigestIsThatOfTheContentAlone(t *testing.T) {
	digests := map[string]bool{}
	for range 2 {
		bubble(t, func(t *testing.T, b *bench) {
			b.Publish(update(7, providerOf("a", 1), providerOf("b", 1)))
			synctest.Wait()
			content, _ := b.Content()
			digests[content.Digest] = true
			b.Publish(update(8, providerOf("b", 1), providerOf("a", 1)))
			synctest.Wait()
			content, _ = b.Content()
			digests[content.Digest] = true
		})
	}
	require.Len(t, digests, 1)
}
