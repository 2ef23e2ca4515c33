package configv1

import (
	"strings"
	"time"
	"unicode"
)

const (
	defaultCacheTTL   = time.Hour
	maxCacheTTL       = 30 * 24 * time.Hour
	defaultCacheBytes = 32 << 20
	maxTemperature    = 2

	// MaxDimensions is the largest length of vectors.
	MaxDimensions    = 4096
	defaultThreshold = 0.95
	minThreshold     = 0.5
	defaultEmbedTime = time.Second
	maxEmbedTime     = 10 * time.Second
)

// KeptFor returns how long an answer is kept.
func (c *ResponseCache) KeptFor() time.Duration { return orDefault(c.GetTtl(), defaultCacheTTL) }

// Bytes returns the most bytes of answers that each process keeps in memory.
func (c *ResponseCache) Bytes() int {
	if c.GetMaxBytes() == 0 {
		return defaultCacheBytes
	}
	return int(c.GetMaxBytes())
}

// Endpoint returns where the embeddings service of a cache is, which is where its credential may be sent.
func (c *ResponseCache) Endpoint() (Endpoint, error) { return webhookEndpoint(c.GetSimilar().GetUrl()) }

// Patience returns how long a vector is waited for.
func (s *SimilarAnswers) Patience() time.Duration { return orDefault(s.GetTimeout(), defaultEmbedTime) }

// LeastSimilarity returns the lowest cosine of similar vectors.
func (s *SimilarAnswers) LeastSimilarity() float64 {
	if s.GetThreshold() == 0 {
		return defaultThreshold
	}
	return s.GetThreshold()
}

func (c *ResponseCache) check(v *validator) {
	if ttl := c.KeptFor(); ttl < time.Second || ttl > maxCacheTTL {
		v.fail("ttl", "must be from 1 s to %d h", int(maxCacheTTL.Hours()))
	}
	if t := c.GetMaxTemperature(); !(t >= 0 && t <= maxTemperature) { // also for one that is not a number
		v.fail("max_temperature", "must be from 0 to %d", maxTemperature)
	}
	switch {
	case c.GetSimilar() == nil && c.GetCredential() != nil:
		v.fail("credential", "is for similar, which is missing")
	case strings.ContainsFunc(c.GetCredential().GetValue(), unicode.IsControl): // it becomes a header
		v.fail("credential.value", "must be one line without control characters")
	}
}

func (s *SimilarAnswers) check(v *validator) {
	if t := s.LeastSimilarity(); !(t >= minThreshold && t <= 1) { // also for one that is not a number
		v.fail("threshold", "must be from %g to 1", minThreshold)
	}
	if d := s.Patience(); d < 10*time.Millisecond || d > maxEmbedTime {
		v.fail("timeout", "must be from 0.01 s to %d s", int(maxEmbedTime.Seconds()))
	}
}
