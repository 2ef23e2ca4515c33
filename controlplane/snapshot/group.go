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

// changes returns the objects that differ from before, nil for removed ones.
func changes(before, after []*xds.Built) map[xds.Object]*xds.Built {
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	same, changed := make(map[*xds.Built]bool, len(before)), map[xds.Object]*xds.Built{}
	for _, b := range before {
		same[b] = true
		changed[b.Object] = nil
	}
	for _, b := range after {
		if changed[b.Object] = b; same[b] {
			delete(changed, b.Object)
		}
	}
	return changed
}

func (g *group) sum() string {
	lines := make([]string, 0, len(g.items))
	for _, i := range g.items {
		lines = append(lines, i.role+" "+i.typ+" "+i.name+" "+i.hash)
	}
	slices.Sort(lines)
	return cache.HashResource([]byte(strings.Join(lines, "\n")))
}
