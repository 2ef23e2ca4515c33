// Package private is the table of the parts of a request that concern only one vendor. They go to no other vendor,
// even one with the same dialect: there they would reveal something about the client, be refused, or change each
// prompt, so that the vendor does not find its beginning in its cache.
//
// The vendor is where the request goes, and not whose dialect it has. A server with Anthropic's dialect is not
// Anthropic.
package private

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
)

// A Datum is a row of the table: a line of the prompt that begins with Name, or a member with that name.
type Datum struct {
	Name   string
	Vendor string // that gets it
	Kind   Kind
	Why    string
}

// A Kind is where a datum stands.
type Kind string

// The kinds of data.
const (
	Line         Kind = "a line of the system's prompt"
	Member       Kind = "a member of a request to /v1/responses"
	CacheControl Kind = "a member of cache_control"
)

// Anthropic is the vendor of most rows.
const Anthropic = "anthropic"

// hosts are where vendors of the table are: below these names.
var hosts = map[string]string{Anthropic: ".anthropic.com", "openai": ".openai.com"}

// Vendor returns the vendor that a request goes to: none, if the endpoint that an operator has set is another's.
func Vendor(vendor, endpoint string) string {
	host, known := hosts[vendor]
	if endpoint == "" || !known || isBelow(endpoint, host) {
		return vendor
	}
	return ""
}

// IsGoogles reports whether an endpoint is Google's.
func IsGoogles(endpoint string) bool { return endpoint != "" && isBelow(endpoint, ".googleapis.com") }

func isBelow(endpoint, host string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && strings.HasSuffix("."+u.Hostname(), host)
}

// Data are all rows.
var Data = []Datum{
	{"x-anthropic-billing-header:", Anthropic, Line, "Claude Code's, with a number that is another one in each request"},
	{"client_metadata", "openai", Member, "Codex's, with numbers of its installation and session"},
	{"scope", Anthropic, CacheControl, "who may share the cache; it needs a beta that others do not have"},
}

// Mentioned reports whether a request may have a line that not every vendor gets.
func Mentioned(body []byte) bool {
	return slices.ContainsFunc(Data, func(d Datum) bool { return d.Kind == Line && bytes.Contains(body, []byte(d.Name)) })
}

// Prompt returns a text of the system's prompt as a vendor gets it.
func Prompt(text, vendor string) string {
	for _, d := range Data {
		if d.Kind == Line && d.Vendor != vendor && strings.Contains(text, d.Name) {
			text = without(text, d.Name)
		}
	}
	return text
}

// without returns a text without the lines that begin with a name, and without empty lines at its beginning if one was
// there.
func without(text, name string) string {
	var kept strings.Builder
	first := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(strings.TrimLeft(line, " \t"), name):
			first = first || kept.Len() == 0
		case first && kept.Len() == 0 && strings.TrimSpace(line) == "":
		default:
			kept.WriteString(line)
		}
	}
	if kept.Len() == len(text) {
		return text
	}
	return kept.String()
}

// Takes reports whether a vendor gets a member of a kind.
func Takes(vendor string, kind Kind, name string) bool {
	return !slices.ContainsFunc(Data, func(d Datum) bool {
		return d.Kind == kind && d.Name == name && d.Vendor != vendor
	})
}
