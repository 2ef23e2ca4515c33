// Package dialects lists the dialects that clients speak. Adding one is its folder beside this one, and a line here.
package dialects

import (
	"iter"
	"maps"

	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/openai"
)

// all are the dialects. The first answers where a path is of none.
var all = []*inbound.Dialect{openai.Dialect}

// Default is the dialect of paths that are no operation's.
var Default = all[0]

var operations = byPath(all)

// Paths are those of all operations.
func Paths() iter.Seq[string] { return maps.Keys(operations) }

// Find returns the operation of a path, or nil.
func Find(path string) *inbound.Operation { return operations[path] }

func byPath(dialects []*inbound.Dialect) map[string]*inbound.Operation {
	found := map[string]*inbound.Operation{}
	for _, d := range dialects {
		for _, o := range d.Operations {
			o.Dialect = d
			found[o.Path] = o
		}
	}
	return found
}
