package metering

import (
	"fmt"
	"time"

	"github.com/modelgate/modelgate/internal/usage"
)

// A CacheResult is what the response cache did.
type CacheResult string

// The results of the response cache.
const (
	CacheHit     CacheResult = "hit"     // the answer is one that was kept
	CacheShared  CacheResult = "shared"  // the answer is that to an equal request, which was under way
	CacheSimilar CacheResult = "similar" // the answer is one that was kept for a similar request
	CacheMiss    CacheResult = "miss"    // the provider was asked
	CacheBypass  CacheResult = "bypass"  // likewise, and the answer is not kept
)

// A Cache is what a response cache did for an exchange.
type Cache struct {
	Name   string
	Result CacheResult
	Reason string        // why the answer is not kept: a member of the request; empty: the client does not want it
	Age    time.Duration // of the answer
	Saved  usage.Nano    // what the answer has cost before
	// Compared says whether the request was compared with similar ones: done, failed or skipped; empty: it was not to be.
	Compared   string
	Similarity float64 // of the request whose answer it is; 0: that was equal
}

// Served reports whether the answer came from the cache, and no provider was asked.
func (c *Cache) Served() bool {
	return c != nil && (c.Result == CacheHit || c.Result == CacheShared || c.Result == CacheSimilar)
}

// Text describes what the cache did, or returns "" for nil.
func (c *Cache) Text() string {
	switch {
	case c == nil:
		return ""
	case c.Result == CacheHit, c.Result == CacheShared:
		return fmt.Sprintf("%s %s (%d s old, %s USD saved)", c.Result, c.Name, int(c.Age.Seconds()), c.Saved)
	case c.Result == CacheSimilar:
		return fmt.Sprintf("%s %s (%d s old, %s USD saved, similarity %.3f)", c.Result, c.Name, int(c.Age.Seconds()), c.Saved,
			c.Similarity)
	case c.Compared == "failed", c.Compared == "skipped":
		return fmt.Sprintf("%s %s (comparison %s)", c.Result, c.Name, c.Compared)
	case c.Reason != "":
		return fmt.Sprintf("%s %s (%s)", c.Result, c.Name, c.Reason)
	}
	return string(c.Result) + " " + c.Name
}
