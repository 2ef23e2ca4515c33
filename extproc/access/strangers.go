package access

import (
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/memo"
)

// maxStrangers bounds the remembered addresses.
const maxStrangers = 100_000

// Strangers limits the full answers to requests without a valid key, by address. Requests with a valid key are never
// limited by it. It is safe for concurrent use.
type Strangers struct {
	perSecond rate.Limit
	burst     int
	buckets   *memo.Memo[netip.Prefix, *rate.Limiter]
}

// NewStrangers allows each address a number of answers per second, and a burst.
func NewStrangers(perSecond float64, burst int) *Strangers {
	return &Strangers{rate.Limit(perSecond), burst, memo.New[netip.Prefix, *rate.Limiter](maxStrangers)}
}

// Allow takes one answer from the allowance of an address. A nil Strangers allows all.
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

// networkOf returns the network that shares a bucket. For IPv6 it is a /64, as in Envoy's own limit of addresses.
// Malformed addresses share one bucket.
func networkOf(address string) netip.Prefix {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Prefix{}
	}
	a, bits := a.Unmap().WithZone(""), 32
	if a.Is6() {
		bits = 64
	}
	network, _ := a.Prefix(bits) // fails only for invalid lengths
	return network
}

// TooManyRefusals is the answer to an address whose allowance is used up.
func TooManyRefusals() *openai.Error {
	return openai.CodeRateLimitExceeded.New("Your address has sent too many requests without a valid API key. Check your key and the URL before you send more.").After(time.Second).Final()
}
