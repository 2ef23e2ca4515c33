package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// A Client is the state of one xDS client.
type Client struct {
	Node, Role, Version string
	ConnectedAt         time.Time
	// Revision of the configuration that it has answered for completely.
	Revision int64
	// Behind means that it has not answered all responses.
	Behind bool
	// Refused is its message if it refused something of this revision, or empty.
	Refused string
}

// clientState tracks a client's version and answers.
type clientState struct {
	since    time.Time
	version  string
	open     int                // responses without an answer
	revision int64              // the last complete revision before these
	refused  map[string]refused // by type
}

// refused is a client's refusal of a response, at a revision. A replacement has the same revision.
type refused struct {
	message  string
	revision int64
}

func newClientState(node *corev3.Node, now time.Time) clientState {
	s := clientState{since: now, version: node.GetUserAgentVersion(), refused: map[string]refused{}}
	if v := node.GetUserAgentBuildVersion().GetVersion(); v != nil {
		s.version = fmt.Sprintf("%d.%d.%d", v.GetMajorNumber(), v.GetMinorNumber(), v.GetPatch())
	}
	return s
}

// sent records a response to the client; published is the revision until then.
func (s *clientState) sent(published int64) {
	if s.open == 0 {
		s.revision = published
	}
	s.open++
}

// answered records an answer, with the error of a refusal or "". A refusal remains until the client takes a newer
// resource.
func (s *clientState) answered(typeURL, message string, published int64) {
	s.open--
	switch {
	case message != "":
		s.refused[typeURL] = refused{shorten(message), published}
	case s.refused[typeURL].revision < published:
		delete(s.refused, typeURL)
	}
}

// Clients returns the state of every client, by role and name.
func (p *Publisher) Clients() []Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Client
	for _, c := range p.clients {
		if c.role == "" {
			continue
		}
		at := Client{Node: c.node, Role: c.role, Version: c.state.version, ConnectedAt: c.state.since,
			Revision: p.published}
		if at.Behind = c.state.open > 0; at.Behind {
			at.Revision = c.state.revision
		}
		for _, typeURL := range slices.Sorted(maps.Keys(c.state.refused)) {
			at.Refused = c.state.refused[typeURL].message
		}
		all = append(all, at)
	}
	slices.SortFunc(all, func(a, b Client) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Node, b.Node), a.ConnectedAt.Compare(b.ConnectedAt))
	})
	return all
}
