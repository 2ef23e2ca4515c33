package snapshot

import (
	"context"
	"strconv"
	"time"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/timing"
)

// heardPause collects clients' answers before Await is evaluated again.
const heardPause = 5 * time.Millisecond

// Await waits until a revision is published and each connected client has answered for all of it, or until ctx ends.
// It then returns the clients that have not. It returns published as false if the revision was not even published.
func (p *Publisher) Await(ctx context.Context, revision int64) (lacking []Client, published bool) {
	for {
		p.mu.Lock()
		lacking, published = p.lacking(revision)
		heard := p.heard
		p.mu.Unlock()
		if published && len(lacking) == 0 {
			return nil, true
		}
		select {
		case <-ctx.Done():
			return lacking, published
		case <-heard:
		}
		_ = timing.Sleep(ctx, heardPause) // the next look heeds its end
	}
}

// NextTaken returns the next revision after than that is published and that every client has taken. The error is
// ctx's.
func (p *Publisher) NextTaken(ctx context.Context, than int64) (int64, error) {
	for {
		p.mu.Lock()
		revision, heard := p.published, p.heard
		p.mu.Unlock()
		if revision > than {
			p.Await(ctx, revision)
			return revision, ctx.Err()
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-heard:
		}
	}
}

// hear wakes waiting calls. The caller holds the lock.
func (p *Publisher) hear() {
	close(p.heard)
	p.heard = make(chan struct{})
}

// lacking returns the clients that have not taken everything up to a revision. The caller holds the lock.
func (p *Publisher) lacking(revision int64) (clients []Client, published bool) {
	published = p.published >= revision && len(p.state.trials) == 0
	for _, c := range p.clients {
		if c.role != "" && (!published || !p.hasTaken(c, revision)) {
			clients = append(clients, Client{Node: c.node, Role: c.role})
		}
	}
	return clients, published
}

// hasTaken reports whether a client has answered for everything up to a published revision. The result is stored,
// because checking all served resources is slow if there are many.
func (p *Publisher) hasTaken(c *client, revision int64) bool {
	if c.taken >= revision {
		return true
	}
	if !p.hasKeys(c, revision) {
		return false
	}
	for typ, sub := range c.subs {
		if !isKeys(c.role, typ) && sub.revision < revision &&
			(p.dirty || len(sub.sent) > 0 || !p.state.has(c.role, typ, sub)) {
			return false
		}
	}
	c.taken = revision
	return true
}

// hasKeys reports whether a client has the keys of a revision. Only ext_proc services get keys.
func (p *Publisher) hasKeys(c *client, revision int64) bool {
	if c.role != envoy.RoleExtProc {
		return true
	}
	sub := c.subs[keyType]
	return sub != nil && sub.answered && (sub.revision >= revision || sub.revision >= p.cache.keys.lastChanged())
}

// has reports whether a client has exactly the served resources of one type that it has asked for.
func (s *state) has(role, typ string, sub *subscription) bool {
	served := s.served[kind{role, typ}]
	for name := range sub.settled {
		if _, ok := served[name]; !ok && sub.wants(name) {
			return false
		}
	}
	for name, i := range served {
		if sub.wants(name) && sub.settled[name] != i.hash {
			return false
		}
	}
	return true
}

// ask records a client's subscription as the library does: a first request without names subscribes to all.
func (s *subscription) ask(names, not []string) {
	if s.names == nil {
		s.names, s.all = map[string]bool{}, len(names) == 0
	}
	for _, name := range names {
		if name == "*" {
			s.all = true
			continue
		}
		s.names[name] = true
	}
	for _, name := range not {
		if name == "*" {
			s.all = false
			continue
		}
		delete(s.names, name)
	}
}

// wants reports whether a client has asked for a resource.
func (s *subscription) wants(name string) bool { return s.all || s.names[name] }

// revisionOf parses the version of a response.
func revisionOf(version string) int64 {
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// lastChanged returns the revision of the last change of a key.
func (c *keyCache) lastChanged() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}
