package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"google.golang.org/protobuf/types/known/anypb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
)

// maxChanges bounds the changes of keys that are stored for slow clients.
const maxChanges = 200_000

var (
	errTooSlow = errors.New("too many keys have changed since the client's last response; it has to connect again")
	errByName  = errors.New("keys are subscribed to as a whole")
)

// A keyCache serves keys to the ext_proc service, separately from other resources: there may be very many, and a
// revocation may not wait. The cost of a change depends on the changed keys, and not on the number of keys. It is safe
// for concurrent use.
type keyCache struct {
	mu       sync.Mutex // guards the fields below
	ready    bool       // after the first update
	revision int64
	changed  int64 // revision of the last change
	keys     map[string]servedKey
	changes  []change // the newest, in order
	last     int64    // number of the last change
	dropped  int64    // number of the last change before those in changes
	watches  map[*keyWatch]bool
}

type servedKey struct {
	value []byte            // of the message
	hash  [sha256.Size]byte // of value
}

// A change is the change of a key. Changes are numbered.
type change struct {
	number int64
	name   string
}

// A keyWatch is a client that waits for changes.
type keyWatch struct {
	request *discoveryv3.DeltaDiscoveryRequest
	known   map[string]string // the versions in its subscription
	respond chan cache.DeltaResponse
}

func newKeyCache() *keyCache {
	return &keyCache{keys: map[string]servedKey{}, watches: map[*keyWatch]bool{}}
}

// update applies changes and sends them to every client. A nil key was deleted.
func (c *keyCache) update(revision int64, changed map[string]*configv1.Key) error {
	next := make(map[string]servedKey, len(changed))
	for name, k := range changed {
		if k == nil {
			continue
		}
		value, err := cache.MarshalResource(k)
		if err != nil {
			return fmt.Errorf("marshaling key %q: %w", name, err)
		}
		next[name] = servedKey{value, sha256.Sum256(value)} // the same hash as cache.HashResource
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision = revision
	if len(changed) == 0 && c.ready {
		return nil
	}
	c.ready, c.changed = true, revision
	for name := range changed {
		if k, ok := next[name]; ok {
			c.keys[name] = k
		} else {
			delete(c.keys, name)
		}
		c.last++
		c.changes = append(c.changes, change{c.last, name})
	}
	if n := len(c.changes) - maxChanges; n > maxChanges {
		c.dropped = c.changes[n-1].number
		c.changes = slices.Clone(c.changes[n:])
	}
	for w := range c.watches {
		delete(c.watches, w)
		w.respond <- c.response(w) // it has room: a client waits for one response at a time
	}
	return nil
}

// CreateDeltaWatch sends a client what it does not have yet, at once or after the next change.
func (c *keyCache) CreateDeltaWatch(r *discoveryv3.DeltaDiscoveryRequest, sub cache.Subscription,
	respond chan cache.DeltaResponse) (func(), error) {
	if !sub.IsWildcard() {
		return nil, errByName
	}
	w := &keyWatch{request: r, known: sub.ReturnedResources(), respond: respond}
	c.mu.Lock()
	defer c.mu.Unlock()
	number, follows := w.number()
	switch {
	case follows && number < c.dropped:
		return nil, errTooSlow
	case c.ready && (!follows || number < c.last):
		respond <- c.response(w)
		return nil, nil
	}
	c.watches[w] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watches, w)
	}, nil
}

// follower is a name in a subscription's versions for the last change that its client was sent. It replaces the
// versions of all keys. No key has this name.
const follower = ""

// number returns the last change that the client was sent. It returns false for a client that has just connected: its
// subscription has versions.
func (w *keyWatch) number() (int64, bool) {
	text, ok := w.known[follower]
	n, err := strconv.ParseInt(text, 10, 64)
	return n, ok && err == nil
}

// response returns what a client does not have yet. The lock is held.
func (c *keyCache) response(w *keyWatch) cache.DeltaResponse {
	out := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: w.request.GetTypeUrl(),
		SystemVersionInfo: strconv.FormatInt(c.revision, 10)}
	add := func(name string, k servedKey) {
		out.Resources = append(out.Resources, &discoveryv3.Resource{
			Name: name, Version: k.version(), Resource: &anypb.Any{TypeUrl: w.request.GetTypeUrl(), Value: k.value},
		})
	}
	remove := func(name string) { out.RemovedResources = append(out.RemovedResources, name) }
	if number, ok := w.number(); ok {
		from, _ := slices.BinarySearchFunc(c.changes, number+1, func(c change, n int64) int { return int(c.number - n) })
		sent := map[string]bool{}
		for _, change := range c.changes[from:] {
			k, there := c.keys[change.name]
			switch {
			case sent[change.name]:
			case there:
				add(change.name, k)
			default:
				remove(change.name)
			}
			sent[change.name] = true
		}
	} else {
		for name, k := range c.keys {
			if w.known[name] != k.version() {
				add(name, k)
			}
		}
		for name := range w.known {
			if _, there := c.keys[name]; !there {
				remove(name)
			}
		}
	}
	return &cache.DeltaPassthroughResponse{
		DeltaRequest: w.request, DeltaDiscoveryResponse: out,
		NextVersionMap: map[string]string{follower: strconv.FormatInt(c.last, 10)},
	}
}

func (k servedKey) version() string { return hex.EncodeToString(k.hash[:]) }

// caches passes requests for keys to the cache of keys, and others to the general cache.
type caches struct {
	cache.SnapshotCache
	keys *keyCache
}

// CreateDeltaWatch passes the request to its cache.
func (c caches) CreateDeltaWatch(r *discoveryv3.DeltaDiscoveryRequest, sub cache.Subscription,
	respond chan cache.DeltaResponse) (func(), error) {
	if isKeys(r.GetNode().GetCluster(), r.GetTypeUrl()) {
		return c.keys.CreateDeltaWatch(r, sub, respond)
	}
	return c.SnapshotCache.CreateDeltaWatch(r, sub, respond)
}

// isKeys reports whether a type is the type of keys, for the role that may have them.
func isKeys(role, typeURL string) bool {
	return role == envoy.RoleExtProc && typeURL == keyType
}

// keyType is the type URL of keys.
const keyType = "type.googleapis.com/modelgate.config.v1." + xds.KindKey
