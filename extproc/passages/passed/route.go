package passed

import (
	"net/url"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/internal/headers"
)

// modelIn returns the model in a Route's path, if it has a price. Bedrock's answers do not name the model.
func (p *Passage) modelIn(vendor, path string) string {
	if p.c.Key == nil {
		return ""
	}
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(path, "/")
	for i := 1; i < len(parts); i++ {
		if parts[i-1] != "model" && parts[i-1] != "models" {
			continue
		}
		name, err := url.PathUnescape(parts[i])
		if err != nil || len(name) > maxModelIn {
			return ""
		}
		// Gemini's paths have a verb after the model
		for _, name := range [...]string{name, name[:max(0, strings.LastIndexByte(name, ':'))]} {
			if name != "" && p.c.Derived().Prices.Of(vendor, name, p.c.Record.Start).Rates != nil {
				return name
			}
		}
	}
	return ""
}

// maxModelIn bounds the length of a model's name in a path, in bytes.
const maxModelIn = 256

// isWithheld reports whether the provider of a Route, which names some headers, must not get a header of the client.
// Headers that Envoy needs are kept here; the route removes them after Envoy has logged them.
func isWithheld(name string, credentials, named []string) bool {
	switch {
	case name[0] == ':' || headers.ToProvider(name):
		return false
	case !headers.ThroughRoute(name, named):
		return true
	case strings.HasSuffix(name, "-version"), strings.HasSuffix(name, "-beta"):
		return false // they select a version of the API, and neither an account nor permissions
	}
	return slices.ContainsFunc(credentials, func(c string) bool { return strings.EqualFold(c, name) })
}
