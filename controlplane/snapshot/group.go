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

// A group is everything that was built from one object. It is served, refused and taken back as a whole, because half
// of an object is of no use: a provider whose new clusters were refused must not get its new credential either. A
// group is immutable.
type group struct {
	items []item
	hash  string // of all items
}

// newGroups hashes resources and gathers them by owner.
func newGroups(rs []xds.Resource) (map[xds.Object]*group, error) {
	groups := map[xds.Object]*group{}
	for _, r := range rs {
		text, err := cache.MarshalResource(r.Message)
		if err != nil {
			return nil, fmt.Errorf("marshaling %q of %s: %w", r.Name, r.Owner, err)
		}
		g := groups[r.Owner]
		if g == nil {
			g = &group{}
			groups[r.Owner] = g
		}
		g.items = append(g.items, item{
			id: id{kind{r.Role, r.Type}, r.Name}, owner: r.Owner, message: r.Message, hash: cache.HashResource(text),
		})
	}
	for _, g := range groups {
		g.hash = g.sum()
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
