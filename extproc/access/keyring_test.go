package access

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/auth"
)

func hashNumber(n int) auth.Hash {
	return sha256.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

// keyNumber returns one of many keys, as different from each other as those of a large company are: each has its own
// name, of a thousand projects in a hundred organizations, in one of forty tariffs.
func keyNumber(n int) *configv1.Key {
	hash := hashNumber(n)
	return &configv1.Key{
		Name: fmt.Sprintf("key_01JD%022d", n), DisplayName: fmt.Sprintf("service number %d", n), Hash: hash[:], Hint: "abcd",
		Organization: fmt.Sprintf("organization-%d", n%100), Project: fmt.Sprintf("project-%d", n%1000),
		Models: []string{"openai/*", "claude"}, Addresses: []string{"10.0.0.0/8"},
		Limits: []*configv1.Limit{
			{Domain: "requests", Unit: configv1.Unit_MINUTE, RequestsPerUnit: uint64(100 + n%40)},
			{Domain: "tokens", Unit: configv1.Unit_DAY, RequestsPerUnit: uint64(100_000 * (n%40 + 1))},
		},
		Budgets:   []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: "100"}},
		Metadata:  map[string]string{"team": fmt.Sprintf("team %d", n%300), "ticket": fmt.Sprintf("REQ-%d", n)},
		ExpiresAt: timestamppb.New(time.Unix(1_800_000_000, 0)), CreatedAt: timestamppb.New(time.Unix(1_700_000_000, 0)),
	}
}

func keyringOf(keys ...*configv1.Key) *Keyring {
	changed := map[string]*configv1.Key{}
	for _, k := range keys {
		changed[k.GetName()] = k
	}
	return (*Keyring)(nil).With(changed)
}

func manyKeys(n int) *Keyring {
	changed := map[string]*configv1.Key{}
	for i := range n {
		k := keyNumber(i)
		changed[k.GetName()] = k
	}
	return (*Keyring)(nil).With(changed)
}

func TestKeyringFindsKeysByHashAndName(t *testing.T) {
	k := keyNumber(1)
	k.Endpoints, k.Disabled = []string{"files"}, true
	want := &Client{
		Name: k.Name, DisplayName: k.DisplayName, Organization: k.Organization, Project: k.Project,
		Models: k.Models, Endpoints: k.Endpoints, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Disabled: true, Expires: 1_800_000_000, Limits: k.Limits, Budgets: k.Budgets,
	}
	ring := keyringOf(k, keyNumber(2))
	require.Equal(t, 2, ring.Len())
	require.Equal(t, want, ring.ByHash(hashNumber(1), time.Now()))
	require.Equal(t, want, ring.ByName(k.Name))
	require.Nil(t, ring.ByHash(hashNumber(3), time.Now()))
	require.Nil(t, ring.ByName("key_3"))

	for _, none := range []*Keyring{nil, {}, ring.With(map[string]*configv1.Key{k.Name: nil, keyNumber(2).Name: nil})} {
		require.Zero(t, none.Len())
		require.Nil(t, none.ByHash(hashNumber(1), time.Now()))
		require.Nil(t, none.ByName(k.Name))
	}
	require.Equal(t, 1, (&Keyring{}).With(map[string]*configv1.Key{k.Name: k}).Len())
}

func TestARetiredKeyIsGoodUntilItsTime(t *testing.T) {
	now := time.Now()
	old := hashNumber(8)
	k := keyNumber(9)
	k.Retired = &configv1.RetiredKey{Hash: old[:], ExpiresAt: timestamppb.New(now.Add(time.Hour))}
	ring := keyringOf(k)
	require.Equal(t, 1, ring.Len())
	require.Equal(t, k.Name, ring.ByHash(old, now).Name)
	require.Equal(t, ring.ByHash(hashNumber(9), now), ring.ByHash(old, now.Add(time.Hour-1)))
	require.Nil(t, ring.ByHash(old, now.Add(time.Hour)))
	require.NotNil(t, ring.ByHash(hashNumber(9), now.Add(time.Hour)))

	k = keyNumber(9) // the grace time is ended
	require.Nil(t, ring.With(map[string]*configv1.Key{k.Name: k}).ByHash(old, now))
	gone := ring.With(map[string]*configv1.Key{k.Name: nil})
	require.Nil(t, gone.ByHash(old, now))
	require.Nil(t, gone.ByHash(hashNumber(9), now))
}

func TestAnAddressThatCannotBeReadLetsNobodyIn(t *testing.T) {
	k := keyNumber(1)
	k.Addresses = []string{"everywhere"}
	addresses := keyringOf(k).ByName(k.Name).Addresses
	require.Len(t, addresses, 1, "none would let everybody in")
	require.False(t, addresses[0].Contains(netip.MustParseAddr("10.0.0.1")))
}

// A Keyring is what a map of keys is, and every earlier one stays as it was.
func TestKeyringAgreesWithAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	names := func(n int) string { return fmt.Sprintf("key_%d", n) }
	var ring *Keyring
	model := map[string]auth.Hash{}
	type generation struct {
		ring  *Keyring
		model map[string]auth.Hash
	}
	var generations []generation
	for range 300 {
		changed := map[string]*configv1.Key{}
		for range 1 + random.IntN(5) {
			name := names(random.IntN(60))
			if changed[name] = nil; random.IntN(3) > 0 {
				k := keyNumber(random.IntN(1_000_000))
				k.Name, changed[name] = name, k
			}
		}
		ring = ring.With(changed)
		for name, k := range changed {
			if delete(model, name); k != nil {
				model[name] = auth.Hash(k.GetHash())
			}
		}
		generations = append(generations, generation{ring, maps.Clone(model)})
	}
	for _, g := range generations {
		require.Equal(t, len(g.model), g.ring.Len())
		for n := range 60 {
			hash, ok := g.model[names(n)]
			require.Equal(t, ok, g.ring.ByName(names(n)) != nil)
			require.Equal(t, ok, ok && g.ring.ByHash(hash, time.Now()).Name == names(n))
		}
	}
	held := 0
	for _, shard := range ring.hashes {
		held += len(shard)
	}
	require.Equal(t, len(model), held, "no hash of an earlier key is left")
}

// heap returns how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAHundredThousandKeys(t *testing.T) {
	before := heap()
	ring := manyKeys(100_000)
	size := heap() - before
	t.Logf("%.1f MB", float64(size)/1e6)
	require.Equal(t, 100_000, ring.Len())
	require.Less(t, size, int64(32e6)) // the rest of 40 MB is for the versions that the client of xDS keeps

	// A change copies little.
	grown := ring.With(map[string]*configv1.Key{"new": keyNumber(100_001)})
	copied := heap() - before - size
	t.Logf("a change: %d bytes", copied)
	require.Less(t, copied, int64(200e3))
	require.Equal(t, 100_001, grown.Len())

	// Look-up takes as long in 100,000 keys as in 1,000: what grows is at most what the caches of the processor miss.
	few, many := lookUps(t, manyKeys(1000), 1000), lookUps(t, ring, 100_000)
	t.Logf("1000 look-ups in 1,000 keys: %s, in 100,000: %s", few, many)
	require.Less(t, many, 10*few)
}

// lookUps returns how long it takes to look up a thousand of the keys in a ring, at best.
func lookUps(t *testing.T, ring *Keyring, keys int) time.Duration {
	t.Helper()
	var hashes []auth.Hash
	for i := range 1000 {
		hashes = append(hashes, hashNumber(i*keys/1000))
	}
	var rounds []time.Duration
	for range 31 {
		start := time.Now()
		for _, h := range hashes {
			if ring.ByHash(h, start) == nil {
				t.Fatal("not found")
			}
		}
		rounds = append(rounds, time.Since(start))
	}
	return slices.Min(rounds)
}

func TestBoundsThatNoKeyHasAnyMoreAreForgotten(t *testing.T) {
	ring := manyKeys(1000)
	require.Len(t, ring.shared.known, 40)
	for i := range 1000 {
		k := keyNumber(i)
		k.Limits = nil
		ring = ring.With(map[string]*configv1.Key{k.Name: k})
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		ring.shared.mu.Lock()
		defer ring.shared.mu.Unlock()
		return len(ring.shared.known) == 1
	}, 5*time.Second, time.Millisecond)
	runtime.KeepAlive(ring)
}

func BenchmarkKeyring(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		ring := manyKeys(n)
		now := time.Now()
		hashes := make([]auth.Hash, 1024)
		for i := range hashes {
			hashes[i] = hashNumber(i * n / len(hashes))
		}
		b.Run(fmt.Sprintf("ByHash/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				ring.ByHash(hashes[i%len(hashes)], now)
			}
		})
		k := keyNumber(n / 2)
		b.Run(fmt.Sprintf("With/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ring.With(map[string]*configv1.Key{k.GetName(): k})
			}
		})
	}
}
