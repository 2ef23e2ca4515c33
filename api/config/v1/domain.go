package configv1

import (
	"slices"
	"strings"
)

// A Domain is something that limits count. Validation, the rules of a request, the dashboard, the flags of the CLI
// and, by a test, the documents use this list.
type Domain struct {
	Name string
	// Concurrent means that it counts running requests. Such a limit has no unit.
	Concurrent bool
	// The parts of a request that it counts.
	Requests, Input, Output bool
}

// The domains of limits.
const (
	DomainRequests     = "requests"
	DomainTokens       = "tokens"
	DomainInputTokens  = "input_tokens"
	DomainOutputTokens = "output_tokens"
	DomainConcurrency  = "concurrency"
)

// Domains returns the domains of limits, in the order for display.
func Domains() []Domain {
	return []Domain{
		{Name: DomainRequests, Requests: true},
		{Name: DomainTokens, Input: true, Output: true},
		{Name: DomainInputTokens, Input: true},
		{Name: DomainOutputTokens, Output: true},
		{Name: DomainConcurrency, Concurrent: true},
	}
}

// DomainNames returns the names of the domains.
func DomainNames() []string {
	var names []string
	for _, d := range Domains() {
		names = append(names, d.Name)
	}
	return names
}

// DomainOf returns the domain with a name, or one that counts nothing.
func DomainOf(name string) Domain {
	all := Domains()
	if i := slices.IndexFunc(all, func(d Domain) bool { return d.Name == name }); i >= 0 {
		return all[i]
	}
	return Domain{Name: name}
}

// Text returns the name in words.
func (d Domain) Text() string { return strings.ReplaceAll(d.Name, "_", " ") }

// Covers reports whether the domain counts everything that o counts.
func (d Domain) Covers(o Domain) bool {
	return d == o || !d.Concurrent && !o.Concurrent && (d.Requests || !o.Requests) && (d.Input || !o.Input) &&
		(d.Output || !o.Output)
}

// Used returns the amount that the domain counts for requests with tokens.
func (d Domain) Used(requests, input, output int64) int64 {
	var used int64
	for _, part := range []struct {
		counts bool
		amount int64
	}{{d.Requests, requests}, {d.Input, input}, {d.Output, output}} {
		if part.counts {
			used += part.amount
		}
	}
	return used
}
