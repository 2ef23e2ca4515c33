package snapshot

import (
	"maps"
	"strconv"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
)

// resources are the resources of one role: the library's snapshot, for any type of resource and with one version for
// all, the revision of the configuration. It is immutable.
type resources struct {
	revision int64
	byType   map[string]map[string]types.Resource
	versions map[string]map[string]string
}

var _ cache.ResourceSnapshot = (*resources)(nil)

// with returns the resources for clients after r, which may be nil. It reads the touched ones from the served
// state. It returns r itself if nothing has changed.
func (r *resources) with(revision int64, touched map[id]bool, s *state) *resources {
	if r == nil {
		r = &resources{revision: -1}
	}
	if r.revision == revision && len(touched) == 0 {
		return r
	}
	next := &resources{revision, fork(r.byType), fork(r.versions)}
	forked := map[string]bool{}
	for key := range touched {
		if !forked[key.typ] {
			forked[key.typ] = true
			next.byType[key.typ], next.versions[key.typ] = fork(r.byType[key.typ]), fork(r.versions[key.typ])
		}
		i, ok := s.served[key.kind][key.name]
		if !ok {
			delete(next.byType[key.typ], key.name)
			delete(next.versions[key.typ], key.name)
			continue
		}
		version := i.hash
		if epoch := s.epochs[i.kind]; epoch > 0 {
			// Only the server compares it: on the wire a resource's version is always its hash.
			version += "+" + strconv.Itoa(epoch)
		}
		next.byType[key.typ][key.name], next.versions[key.typ][key.name] = i.message, version
	}
	return next
}

// fork returns a copy that can be changed while others read the original, which may be nil.
func fork[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return maps.Clone(m)
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

// ConstructVersionMap does nothing: the versions exist from the start.
func (r *resources) ConstructVersionMap() error { return nil }

// GetVersionMap returns the versions of a type's resources by name.
func (r *resources) GetVersionMap(typeURL string) map[string]string { return r.versions[typeURL] }
