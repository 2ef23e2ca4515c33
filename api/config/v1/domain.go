package configv1

import (
	"slices"
	"strings"
)

// A Domain is something that limits count. What reads limits asks it what that is: validation, the rules of a request,
// the dashboard, the flags of the CLI and, by a test, the documents.
type Domain struct {
	Name string
	// AtOnce says that it counts what runs now. Such a limit has no unit.
	AtOnce bool
	// What it counts of a request.
	Requests, Input, Output bool
}

// What a limit counts.
const (
	DomainRequests     = "requests"
	DomainTokens       = "tokens"
	DomainInputTokens  = "input_tokens"
	DomainOutputTokens = "output_tokens"
	DomainConcurrency  = "concurrency"
)

// Domains returns what limits may count, in the order in which people are shown it.
func Domains() []Domain {
	return []Domain{
		{Name: DomainRequests, Requests: true},
		{Name: DomainTokens, Input: true, Output: true},
		{Name: DomainInputTokens, Input: true},
		{Name: DomainOutputTokens, Output: true},
		{Name: DomainConcurrency, AtOnce: true},
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

// DomainOf returns the domain of a name, or one that counts nothing where there is none.
func DomainOf(name string) Domain {
	all := Domains()
	if i := slices.IndexFunc(all, func(d Domain) bool { return d.Name == name }); i >= 0 {
		return all[i]
	}
	return Domain{Name: name}
}

// Text returns the name in words.
func (d Domain) Text() string { return strings.ReplaceAll(d.Name, "_", " ") }

// Covers reports whether it counts all that another one counts.
func (d Domain) Covers(o Domain) bool {
	return d == o || !d.AtOnce && !o.AtOnce && (d.Requests || !o.Requests) && (d.Input || !o.Input) &&
		(d.Output || !o.Output)
}

// Used returns what it counts of so many requests with so many tokens.
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
