package snapshot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"google.golang.org/protobuf/proto"

	"github.com/modelgate/modelgate/controlplane/xds"
)

// A kind is one type of resource for one role.
type kind struct {
	role string
	typ  string // type URL
}

// An id names a resource.
type id struct {
	kind
	name string
}

// An item is a resource with the hash of its content, which is also its version on the wire.
type item struct {
	id
	owner   xds.Object
	message proto.Message
	hash    string
}

// A group has everything that was built from one object. It is served, refused and withdrawn as a whole, because a
// part of an object is useless: a provider whose new clusters were refused must not get its new credential either. A
// group is immutable.
type group struct {
	of    *xds.Built
	items []item
	hash  string // of all items
}

// newGroup hashes the resources of an object.
func newGroup(of *xds.Built) (*group, error) {
	g := &group{of: of}
	for _, r := range of.Resources {
		text, err := cache.MarshalResource(r.Message)
		if err != nil {
			return nil, fmt.Errorf("marshaling %q of %s: %w", r.Name, of.Object, err)
		}
		g.items = append(g.items, item{
			id: id{kind{r.Role, r.Type}, r.Name}, owner: of.Object, message: r.Message, hash: cache.HashResource(text),
		})
	}
	g.hash = g.sum()
	return g, nil
}

// newGroups returns the groups of objects. Those of the time before are used again.
func newGroups(objects []*xds.Built, before map[xds.Object]*group) (map[xds.Object]*group, error) {
	groups := make(map[xds.Object]*group, len(objects))
	for _, built := range objects {
		last := before[built.Object]
		if last != nil && last.of == built {
			groups[built.Object] = last
			continue
		}
		g, err := newGroup(built)
		if err != nil {
			return nil, err
		}
		if last != nil && last.hash == g.hash {
			g = last
		}
		groups[built.Object] = g
	}
	return groups, nil
}

func (g *group) sum() string {
	lines := make([]string, 0, len(g.items))
	for _, i := range g.items {
		lines = append(lines, i.role+" "+i.typ+" "+i.name+" "+i.hash)
	}
	slices.Sort(lines)
	return cache.HashResource([]byte(strings.Join(lines, "\n")))
}
