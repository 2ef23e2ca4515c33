package usage

import "strings"

// Cached is what a response cache did for an exchange, as its record says it.
type Cached struct {
	Cache  string
	Result string // hit, shared, similar, miss or bypass
	Saved  Nano   // what the answer has cost before; 0 unless Served
}

// Served reports whether the answer came from the cache.
func (c Cached) Served() bool { return c.Result != "miss" && c.Result != "bypass" }

// ParseCached reads what a record says of a response cache, such as "hit faq (90 s old, 0.0012 USD saved)".
func ParseCached(text string) (c Cached, ok bool) {
	result, rest, ok := strings.Cut(text, " ")
	if !ok {
		return c, false
	}
	name, more, _ := strings.Cut(rest, " (")
	c = Cached{Cache: name, Result: result}
	switch result {
	case "miss", "bypass":
		return c, true
	case "hit", "shared", "similar":
	default:
		return c, false
	}
	_, more, _ = strings.Cut(more, ", ")
	usd, _, ok := strings.Cut(more, " USD saved")
	saved, err := ParseUSD(usd)
	c.Saved = saved
	return c, ok && err == nil
}
