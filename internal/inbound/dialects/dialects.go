// Package dialects lists the dialects that clients speak. To add one, add its folder beside this one, and a line here.
package dialects

import (
	"iter"
	"maps"
	"strings"

	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/gemini"
	"github.com/modelgate/modelgate/internal/inbound/messages"
	"github.com/modelgate/modelgate/internal/inbound/openai"
	"github.com/modelgate/modelgate/internal/inbound/rerank"
	"github.com/modelgate/modelgate/internal/inbound/responses"
)

// all are the dialects. The first one answers requests to unknown paths.
var all = []*inbound.Dialect{
	openai.Dialect,
	messages.Dialect,
	responses.Dialect,
	gemini.Dialect,
	rerank.Dialect,
}

// Default is the dialect for paths that are not an operation.
var Default = all[0]

// Others returns the dialects besides Default.
func Others() []*inbound.Dialect { return all[1:] }

// KeyHeaders returns the headers in which clients may send a key in place of a bearer token.
func KeyHeaders() (names []string) {
	for _, d := range all {
		if d.KeyHeader != "" {
			names = append(names, d.KeyHeader)
		}
	}
	return names
}

// Of returns the dialect of a request that is no operation's: the one whose path or header it has, or Default.
func Of(path string, header func(name string) string) *inbound.Dialect {
	for _, d := range Others() {
		if d.Prefix != "" && strings.HasPrefix(path, d.Prefix) || d.Header != "" && header(d.Header) != "" {
			return d
		}
	}
	return Default
}

var operations = byPath(all)

// Paths returns the paths of all operations that have one.
func Paths() iter.Seq[string] { return maps.Keys(operations) }

// Find returns the operation of a path and its parameters, or nil.
func Find(path, query string) *inbound.Operation {
	if o := operations[path]; o != nil {
		return o
	}
	for _, d := range all {
		if d.Match == nil {
			continue
		}
		if o := d.Match(path, query); o != nil {
			return o
		}
	}
	return nil
}

func byPath(dialects []*inbound.Dialect) map[string]*inbound.Operation {
	found := map[string]*inbound.Operation{}
	for _, d := range dialects {
		for _, o := range d.Operations {
			o.Dialect = d
			if o.Path != "" {
				found[o.Path] = o
			}
		}
	}
	return found
}
