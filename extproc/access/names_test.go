package access

import (
	"fmt"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/internal/limit"
)

// named has a clock, limits by user and by model for each minute, and the counters that requests had.
type named struct {
	t        *testing.T
	at       time.Time
	asked    int // readings of the clock
	names    *Names
	book     *Book
	counters map[string]bool
}

func newNamed(t *testing.T, descriptors ...*descriptor) *named {
	n := &named{t: t, at: time.Unix(1e9, 0), counters: map[string]bool{}}
	n.names = NewNames(func() time.Time { n.asked++; return n.at })
	n.book = NewBook(Directory{RateLimits: limitsOf(t, map[string]*rlsv3.RateLimitConfig{
		"r": {Domain: "requests", Descriptors: descriptors}})}, n.names)
	return n
}

// asks returns the counter of a request.
func (n *named) asks(k *Client, user, model string) string {
	set := n.book.Rules(k, user, model, "p")
	require.Len(n.t, set.Rules, 1)
	n.counters[set.Rules[0].Counter] = true
	return set.Rules[0].Counter
}

func TestWhatClientsInventHasABoundedNumberOfCounters(t *testing.T) {
	for what, c := range map[string]struct {
		by   *descriptor
		asks func(n *named, k *Client, i int)
	}{
		"users":  {per("user", "", 5), func(n *named, k *Client, i int) { n.asks(k, fmt.Sprint("u", i), "p/m") }},
		"models": {per("model", "", 5), func(n *named, k *Client, i int) { n.asks(k, "", fmt.Sprint("p/", i)) }},
		"users of models": {per("model", "", 0, per("user", "", 0, per("key", "", 5))),
			func(n *named, k *Client, i int) { n.asks(k, fmt.Sprint("u", i%1000), fmt.Sprint("p/", i)) }},
		"users of models that have a pattern": {per("user", "", 0, per("model", "p/*", 5)),
			func(n *named, k *Client, i int) { n.asks(k, fmt.Sprint("u", i), fmt.Sprint("p/", i)) }},
	} {
		t.Run(what, func(t *testing.T) {
			n := newNamed(t, c.by)
			for i := range maxTenantCounters/2 + 2000 {
				c.asks(n, &Client{Name: "k"}, i)
			}
			require.LessOrEqual(t, len(n.counters), maxTenantCounters/2+256)
			require.Greater(t, len(n.counters), maxTenantCounters/2, "each key has its own room first")
		})
	}
}

func TestInventedUsersTakeNoRoomOfOthers(t *testing.T) {
	n := newNamed(t, per("user", "", 5))
	hostile, same, other := &Client{Name: "h", Organization: "o"}, &Client{Name: "s", Organization: "o"},
		&Client{Name: "p"}
	before := n.asks(hostile, "alice", "p/m")
	for i := range maxTenantCounters/2 + 1 {
		n.asks(hostile, fmt.Sprint("u", i), "p/m")
	}
	require.Equal(t, before, n.asks(hostile, "alice", "p/m"), "who was there keeps the counter")
	require.Equal(t, before, n.asks(same, "alice", "p/m"), "which all keys of the organization share")
	seen := len(n.counters)
	for i := range 1000 {
		n.asks(same, fmt.Sprint("s", i), "p/m")
		n.asks(other, fmt.Sprint("s", i), "p/m")
	}
	require.Len(t, n.counters, seen+2000, "users of other keys have counters of their own")
	late := n.asks(hostile, "late", "p/m")
	require.Contains(t, late, "/user=others/h/")
	require.Equal(t, late, n.asks(hostile, "late", "p/m"))

	n.at = n.at.Add(2 * time.Minute)
	require.NotContains(t, n.asks(hostile, "late", "p/m"), "others", "windows have ended, and there is room")
	for i := range maxTenantCounters / 4 {
		require.NotContains(t, n.asks(hostile, fmt.Sprint("v", i), "p/m"), "others")
	}
}

func TestARequestReadsTheClockOnce(t *testing.T) {
	n := newNamed(t, per("user", "", 5), per("user", "", 0, per("model", "", 5)))
	require.Len(t, n.book.Rules(&Client{Name: "k"}, "u", "p/m", "p").Rules, 2)
	require.Equal(t, 1, n.asked)
}

func TestInventedUsersOfManyKeysLeaveRoom(t *testing.T) {
	n := newNamed(t, per("user", "", 5))
	for key := range 12 {
		e := entries{entryKey: fmt.Sprint("h", key)}
		for i := range maxTenantCounters {
			if !n.names.admit(&e, fmt.Sprint("u", i), limit.Minute, n.at, n.at) {
				break
			}
		}
	}
	require.LessOrEqual(t, n.names.total, maxCounters)
	for i := range 1000 {
		require.NotContains(t, n.asks(&Client{Name: "k"}, fmt.Sprint("s", i), "p/m"), "others")
	}
	n.at = n.at.Add(2 * time.Minute)
	n.names.swept = time.Time{}
	for i := range maxTenantCounters/2 + 1 {
		n.names.admit(&entries{entryKey: "k"}, fmt.Sprint("t", i), limit.Minute, n.at, n.at)
	}
	require.Less(t, len(n.names.tenants), 12, "who has no names any more is forgotten")
}

func TestASharedCounterOfAModelIsNotKept(t *testing.T) {
	n := newNamed(t, per("model", "", 5))
	k := &Client{Name: "k"}
	for i := range maxTenantCounters/2 + 1 {
		n.asks(k, "", fmt.Sprint("p/", i))
	}
	require.Contains(t, n.asks(k, "", "p/late"), "/model=others/k/")
	n.at = n.at.Add(2 * time.Minute)
	require.NotContains(t, n.asks(k, "", "p/late"), "others")
}

func TestWhatWasUsedBeforeFitsTheRoom(t *testing.T) {
	hour := per("user", "", 5)
	hour.RateLimit.Unit = rlsv3.RateLimitUnit_HOUR
	n := newNamed(t, hour)
	past := func(user string, age time.Duration) string {
		all := n.book.directory.Past(&ledgerv1.Past{Key: "k", User: user, Model: "p/m", Requests: 1,
			End: timestamppb.New(n.at.Add(-age))}, n.names)
		require.Len(t, all, 1)
		return all[0].Counter
	}
	for i := range maxTenantCounters {
		past(fmt.Sprint("old", i), 2*time.Hour)
	}
	recent := past("alice", time.Minute)
	require.NotContains(t, recent, "others", "windows that have ended take no room")
	require.Equal(t, recent, n.asks(&Client{Name: "k"}, "alice", "p/m"))
}
