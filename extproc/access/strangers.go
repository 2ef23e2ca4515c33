package access

import (
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"github.com/modelgate/modelgate/internal/memo"
)

// maxStrangers bounds the addresses that are remembered.
const maxStrangers = 100_000

// Strangers bounds how many requests without a good key each address gets a full answer to. A request with a good key
// is never held up by it. It is safe for concurrent use.
type Strangers struct {
	perSecond rate.Limit
	burst     int
	buckets   *memo.Memo[netip.Prefix, *rate.Limiter]
}

// NewStrangers allows each address a number of answers a second, and some at once.
func NewStrangers(perSecond float64, burst int) *Strangers {
	return &Strangers{rate.Limit(perSecond), burst, memo.New[netip.Prefix, *rate.Limiter](maxStrangers)}
}

// Allow takes an answer from what an address has left. Nil allows all.
func (s *Strangers) Allow(address string, now time.Time) bool {
	if s == nil {
		return true
	}
	network := networkOf(address)
	bucket, ok := s.buckets.Find(network)
	if !ok {
		bucket = s.buckets.Keep(network, rate.NewLimiter(s.perSecond, s.burst))
	}
	return bucket.AllowN(now, 1)
}

// networkOf returns whose bucket an address has: of IPv6 a whole /64 is one, as for Envoy's own limit of addresses.
// What is no address has one bucket too.
func networkOf(address string) netip.Prefix {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Prefix{}
	}
	a, bits := a.Unmap().WithZone(""), 32
	if a.Is6() {
		bits = 64
	}
	network, _ := a.Prefix(bits) // which fails for other numbers of bits alone
	return network
}
