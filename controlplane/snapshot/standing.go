package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// A Client is how one client of xDS stands.
type Client struct {
	Node, Role, Version string
	ConnectedAt         time.Time
	// Revision of the configuration that it has answered for whole.
	Revision int64
	// Behind says that it has been sent something that it has not answered for.
	Behind bool
	// Refused is what it said when it refused something of this revision; empty where it has taken all.
	Refused string
}

// standing is what a client has said of itself and of what it was sent.
type standing struct {
	since    time.Time
	version  string
	open     int                // responses that it has not answered
	revision int64              // that it had whole before the first of those
	refused  map[string]refused // by type
}

// refused is that a client refused a response, at a revision. What it gets in the place of that is of the same
// revision.
type refused struct {
	message  string
	revision int64
}

func newStanding(node *corev3.Node, now time.Time) standing {
	s := standing{since: now, version: node.GetUserAgentVersion(), refused: map[string]refused{}}
	if v := node.GetUserAgentBuildVersion().GetVersion(); v != nil {
		s.version = fmt.Sprintf("%d.%d.%d", v.GetMajorNumber(), v.GetMinorNumber(), v.GetPatch())
	}
	return s
}

// sent says that the client is sent a response; published is what it has had until then.
func (s *standing) sent(published int64) {
	if s.open == 0 {
		s.revision = published
	}
	s.open++
}

// answered says that it has answered one, and why it refused it or "". A refusal stands until it takes something
// newer.
func (s *standing) answered(typeURL, message string, published int64) {
	s.open--
	switch {
	case message != "":
		s.refused[typeURL] = refused{shorten(message), published}
	case s.refused[typeURL].revision < published:
		delete(s.refused, typeURL)
	}
}

// Clients returns how every client stands, by role and name.
func (p *Publisher) Clients() []Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Client
	for _, c := range p.clients {
		if c.role == "" {
			continue
		}
		at := Client{Node: c.node, Role: c.role, Version: c.standing.version, ConnectedAt: c.standing.since,
			Revision: p.published}
		if at.Behind = c.standing.open > 0; at.Behind {
			at.Revision = c.standing.revision
		}
		for _, typeURL := range slices.Sorted(maps.Keys(c.standing.refused)) {
			at.Refused = c.standing.refused[typeURL].message
		}
		all = append(all, at)
	}
	slices.SortFunc(all, func(a, b Client) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Node, b.Node), a.ConnectedAt.Compare(b.ConnectedAt))
	})
	return all
}
