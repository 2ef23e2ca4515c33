package snapshot

import (
	"maps"
	"strconv"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
)

// resources is what the clients of one role are given: the library's snapshot, for any type of resource and with one
// version for all of them, the revision of the configuration. It is immutable.
type resources struct {
	revision int64
	byType   map[string]map[string]types.Resource
	versions map[string]map[string]string
}

var _ cache.ResourceSnapshot = (*resources)(nil)

func newResources(revision int64, items map[id]item, epochs map[kind]int) *resources {
	r := &resources{
		revision: revision,
		byType:   map[string]map[string]types.Resource{},
		versions: map[string]map[string]string{},
	}
	for _, i := range items {
		if r.byType[i.typ] == nil {
			r.byType[i.typ] = map[string]types.Resource{}
			r.versions[i.typ] = map[string]string{}
		}
		version := i.hash
		if epoch := epochs[i.kind]; epoch > 0 {
			// Only compared by the server: on the wire a resource's version is always its hash.
			version += "+" + strconv.Itoa(epoch)
		}
		r.byType[i.typ][i.name] = i.message
		r.versions[i.typ][i.name] = version
	}
	return r
}

// equal reports whether clients that have other would be sent nothing for r.
func (r *resources) equal(other *resources) bool {
	return other != nil && r.revision == other.revision &&
		maps.EqualFunc(r.versions, other.versions, func(a, b map[string]string) bool { return maps.Equal(a, b) })
}

// GetVersion returns the revision, which is the system version of every response.
func (r *resources) GetVersion(string) string { return strconv.FormatInt(r.revision, 10) }

// GetResources returns the resources of a type by name.
func (r *resources) GetResources(typeURL string) map[string]types.Resource { return r.byType[typeURL] }

// GetResourcesAndTTL returns the resources of a type by name; none has a time to live.
func (r *resources) GetResourcesAndTTL(typeURL string) map[string]types.ResourceWithTTL {
	out := make(map[string]types.ResourceWithTTL, len(r.byType[typeURL]))
	for name, m := range r.byType[typeURL] {
		out[name] = types.ResourceWithTTL{Resource: m}
	}
	return out
}

// ConstructVersionMap does nothing: the versions are there from the start.
func (r *resources) ConstructVersionMap() error { return nil }

// GetVersionMap returns the versions of a type's resources by name.
func (r *resources) GetVersionMap(typeURL string) map[string]string { return r.versions[typeURL] }
