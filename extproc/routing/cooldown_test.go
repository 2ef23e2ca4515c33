package routing

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
)

// cooledProvider is a provider with a credential.
func cooledProvider(t *testing.T, name, endpoint, credential string) *Provider {
	t.Helper()
	p, err := NewProvider(&configv1.ResolvedProvider{
		Provider: &configv1.Provider{Name: name, Vendor: "v", Endpoint: endpoint}, Credential: credential},
		provider.Provider{Name: "v"})
	require.NoError(t, err)
	return p
}

func TestAProviderCoolsForAsLongAsItAsks(t *testing.T) {
	now := time.Unix(1700000000, 0)
	for name, c := range map[string]struct {
		status int
		wait   time.Duration
		want   time.Duration
	}{
		"429":                       {429, 7 * time.Second, 7 * time.Second},
		"503":                       {503, 7 * time.Second, 7 * time.Second},
		"529":                       {529, 7 * time.Second, 7 * time.Second},
		"429 that says no time":     {429, 0, defaultCooldown},
		"529 that says no time":     {529, 0, defaultCooldown},
		"503 that says no time":     {503, 0, 0}, // which may be about this request alone
		"longer than is reasonable": {429, 24 * time.Hour, maxCooldown},
		"pitfall 103: 400":          {400, time.Minute, 0},
		"pitfall 103: 401":          {401, time.Minute, 0},
		"pitfall 103: 402":          {402, time.Minute, 0},
		"pitfall 103: 404":          {404, time.Minute, 0},
		"pitfall 103: 413":          {413, time.Minute, 0},
		"pitfall 103: 422":          {422, time.Minute, 0},
		"500":                       {500, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var c1 Cooldown
			p := cooledProvider(t, "p", "https://one.test", "secret")
			c1.Refused(p, c.status, c.wait, now)
			if c.want == 0 {
				require.Zero(t, c1.Until(p, now))
				return
			}
			require.Equal(t, now.Add(c.want), c1.Until(p, now))
			require.NotZero(t, c1.Until(p, now.Add(c.want-1)))
			require.Zero(t, c1.Until(p, now.Add(c.want)))
		})
	}
}

func TestProvidersCoolTogetherThatShareAQuota(t *testing.T) {
	now := time.Unix(1700000000, 0)
	p := cooledProvider(t, "p", "https://one.test/v1", "secret")
	var c Cooldown
	c.Refused(p, 429, time.Second, now)
	require.NotZero(t, c.Until(cooledProvider(t, "twin", "https://one.test/v1", "secret"), now), "pitfall 101")
	require.Zero(t, c.Until(cooledProvider(t, "p", "https://one.test/v1", "another"), now))
	require.Zero(t, c.Until(cooledProvider(t, "p", "https://two.test/v1", "secret"), now),
		"vendors have quotas for each region")

	open := cooledProvider(t, "open", "https://one.test/v1", "")
	c.Refused(open, 429, time.Second, now)
	require.NotZero(t, c.Until(open, now))
	require.Zero(t, c.Until(cooledProvider(t, "other", "https://one.test/v1", ""), now),
		"nothing is shared without a credential")
}

func TestSuccessEndsACooldown(t *testing.T) {
	now := time.Unix(1700000000, 0)
	p := cooledProvider(t, "p", "https://one.test", "secret")
	var c Cooldown
	c.Served(p, now)
	c.Refused(p, 429, 10*time.Second, now)
	c.Served(p, now.Add(-time.Second))
	require.NotZero(t, c.Until(p, now), "a stream that began before says nothing")
	c.Served(p, now.Add(time.Second))
	require.Zero(t, c.Until(p, now))
	require.Nil(t, c.periods.Load(), "where nothing cools nothing is looked up")
}

func TestALaterRefusalDoesNotShortenACooldown(t *testing.T) {
	now := time.Unix(1700000000, 0)
	p := cooledProvider(t, "p", "https://one.test", "secret")
	var c Cooldown
	c.Refused(p, 429, 10*time.Second, now)
	c.Refused(p, 429, time.Second, now.Add(time.Second))
	require.Equal(t, now.Add(10*time.Second), c.Until(p, now))
}

func TestTargetsThatCoolAreTriedLast(t *testing.T) {
	at := time.Unix(1700000000, 0)
	now := func() time.Time { return at }
	var targets []Target
	for _, name := range []string{"a", "b", "c", "d"} {
		targets = append(targets, Target{Provider: cooledProvider(t, name, "https://"+name+".test", "secret"), Model: name})
	}
	named := func(c *Cooldown) (names string) {
		ordered := append([]Target(nil), targets...)
		c.order(ordered, now)
		for _, target := range ordered {
			names += target.Model
		}
		return names
	}
	var c Cooldown
	require.Equal(t, "abcd", named(&c))
	c.Refused(targets[0].Provider, 429, 9*time.Second, at)
	require.Equal(t, "bcda", named(&c))
	c.Refused(targets[1].Provider, 429, 3*time.Second, at)
	require.Equal(t, "cdba", named(&c))
	c.Refused(targets[2].Provider, 429, 5*time.Second, at)
	c.Refused(targets[3].Provider, 429, 7*time.Second, at)
	require.Equal(t, "bcda", named(&c), "where all cool, that first which cools for the shortest time")
	at = at.Add(6 * time.Second)
	require.Equal(t, "bcda", named(&c), "what is over does not count")
	at = at.Add(4 * time.Second)
	require.Equal(t, "abcd", named(&c))
}

func TestACooldownForgetsWhatIsOver(t *testing.T) {
	now := time.Unix(1700000000, 0)
	var c Cooldown
	for i := range 1000 {
		p := cooledProvider(t, "p", "https://one.test", string(rune('a'+i%26))+time.Duration(i).String())
		c.Refused(p, 429, time.Second, now.Add(time.Duration(i)*100*time.Millisecond))
	}
	require.LessOrEqual(t, len(*c.periods.Load()), 11)
}

// Each goroutine has a provider of its own, so whatever it reads there that it did not write is a write that got lost.
func TestACooldownIsSharedByManyGoroutines(t *testing.T) {
	now := time.Unix(1700000000, 0)
	idle := cooledProvider(t, "idle", "https://idle.test", "secret")
	var c Cooldown
	var all sync.WaitGroup
	var kept, ordered, ended atomic.Int64
	const goroutines, rounds = 8, 2000
	for i := range goroutines {
		p := cooledProvider(t, "p", "https://one.test", fmt.Sprint("secret", i))
		all.Go(func() {
			for range rounds {
				c.Refused(p, 429, time.Second, now)
				if c.Until(p, now).Equal(now.Add(time.Second)) {
					kept.Add(1)
				}
				targets := []Target{{Provider: p}, {Provider: idle}}
				if c.order(targets, func() time.Time { return now }); targets[1].Provider == p {
					ordered.Add(1)
				}
				c.Served(p, now.Add(1))
				if c.Until(p, now).IsZero() {
					ended.Add(1)
				}
			}
		})
	}
	all.Wait()
	const each = goroutines * rounds
	require.Equal(t, []int64{each, each, each}, []int64{kept.Load(), ordered.Load(), ended.Load()})
	require.Nil(t, c.periods.Load())
}

func BenchmarkOrderWhereNothingCools(b *testing.B) {
	var c Cooldown
	targets := make([]Target, 2)
	for b.Loop() {
		c.order(targets, time.Now)
	}
}
