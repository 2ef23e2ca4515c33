package snapshot

import (
	"maps"

	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/modelgate/modelgate/envoy"
)

// A client is one stream.
type client struct {
	role string // empty until its first request
	node string
	subs map[string]*subscription // by type URL

	standing standing
}

// A subscription is how far a client is with one type.
type subscription struct {
	settled map[string]string // hashes by name of what it has, or has refused for good
	sent    map[string]sent   // responses that are not answered yet, by nonce
}

// sent is a response.
type sent struct {
	versions map[string]string // hashes by name
	removed  []string
}

func (c *client) subscription(typeURL string) *subscription {
	sub := c.subs[typeURL]
	if sub == nil {
		sub = &subscription{settled: map[string]string{}, sent: map[string]sent{}}
		c.subs[typeURL] = sub
	}
	return sub
}

// settle records that nothing more of a response will be sent to the client.
func (s *subscription) settle(r sent) {
	maps.Copy(s.settled, r.versions)
	for _, name := range r.removed {
		delete(s.settled, name)
	}
}

// unsettle records that a response will be sent again, or something else in its place.
func (s *subscription) unsettle(r sent) {
	for name := range r.versions {
		delete(s.settled, name)
	}
}

// clustersSettled reports whether every Envoy that has subscribed to clusters has answered for all that are served.
func clustersSettled(clients map[int64]*client, served map[id]item) bool {
	for _, c := range clients {
		if c.role != envoy.RoleEnvoy || c.subs[resource.ClusterType] == nil {
			continue
		}
		settled := c.subs[resource.ClusterType].settled
		for key, i := range served {
			if i.role == envoy.RoleEnvoy && i.typ == resource.ClusterType && settled[key.name] != i.hash {
				return false
			}
		}
	}
	return true
}
