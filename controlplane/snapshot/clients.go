package snapshot

import (
	"context"
	"crypto/x509"
	"maps"

	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/modelgate/modelgate/envoy"
)

// A client is one stream.
type client struct {
	certificate *x509.Certificate // may be nil

	role string // empty until its first request
	node string
	subs map[string]*subscription // by type URL

	state clientState
	taken int64 // the revision up to which it has answered everything
}

// A subscription is the state of one type at a client.
type subscription struct {
	settled map[string]string // hashes by name of resources that it has, or has refused for good
	sent    map[string]sent   // responses without an answer yet, by nonce

	all      bool            // it asks for every resource of the type
	names    map[string]bool // or for these; nil before the first request
	answered bool            // at least one response was answered
	revision int64           // of the newest answered response
}

// sent is a response that was sent.
type sent struct {
	revision int64
	versions map[string]string // hashes by name; empty for keys, because there may be very many
	removed  []string
}

// shown returns the certificate of the client whose stream has the context.
func shown(ctx context.Context) *x509.Certificate {
	from, _ := grpcpeer.FromContext(ctx)
	if from == nil {
		return nil
	}
	secure, _ := from.AuthInfo.(credentials.TLSInfo)
	if len(secure.State.PeerCertificates) == 0 {
		return nil
	}
	return secure.State.PeerCertificates[0]
}

// has reports whether the client's certificate has the name, or no name is required.
func (c *client) has(name string) bool {
	return name == "" || c.certificate != nil && c.certificate.VerifyHostname(name) == nil
}

func (c *client) subscription(typeURL string) *subscription {
	sub := c.subs[typeURL]
	if sub == nil {
		sub = &subscription{settled: map[string]string{}, sent: map[string]sent{}}
		c.subs[typeURL] = sub
	}
	return sub
}

// settle records that a response will not be sent again.
func (s *subscription) settle(r sent) {
	s.answered, s.revision = true, max(s.revision, r.revision)
	maps.Copy(s.settled, r.versions)
	for _, name := range r.removed {
		delete(s.settled, name)
	}
}

// unsettle records that a response, or a replacement, will be sent again.
func (s *subscription) unsettle(r sent) {
	for name := range r.versions {
		delete(s.settled, name)
	}
}

// clustersSettled reports whether every Envoy that has subscribed to clusters has answered for all that are served.
// The caller holds the lock.
func (p *Publisher) clustersSettled() bool {
	for _, c := range p.clients {
		if c.role != envoy.RoleEnvoy || c.subs[resource.ClusterType] == nil {
			continue
		}
		settled := c.subs[resource.ClusterType].settled
		for name, i := range p.state.served[kind{envoy.RoleEnvoy, resource.ClusterType}] {
			if settled[name] != i.hash {
				return false
			}
		}
	}
	return true
}
