package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/timing"
)

// Content is what Envoys are sent. It is immutable, and so are the messages.
type Content struct {
	// Digest is the same for the same content, whichever control plane has it.
	Digest string
	given  *resources
}

// All are the resources, in any order.
func (c Content) All() iter.Seq[proto.Message] {
	return func(yield func(proto.Message) bool) {
		if c.given == nil {
			return
		}
		for _, named := range c.given.byType {
			for _, m := range named {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// Content returns what Envoys are sent now, and a channel that is closed when it may have changed.
func (p *Publisher) Content() (Content, <-chan struct{}) {
	p.mu.Lock()
	given, heard := p.state.given[envoy.RoleEnvoy], p.heard
	p.mu.Unlock()
	return Content{digest(given), given}, heard
}

// sharedPause is how long Envoys of others have to take what they were given: they do not say when they have.
const sharedPause = 300 * time.Millisecond

// Shared records that Envoys of others, which are told of changes, were given content.
func (p *Publisher) Shared(digest string) {
	p.mu.Lock()
	p.shared, p.state.shared = digest, true
	p.mu.Unlock()
	p.signal()
}

// awaitShared waits until Envoys of others, if there are any, were given what Envoys are sent, as long as for
// acknowledgements, and then for them to take it.
func (p *Publisher) awaitShared(ctx context.Context) {
	p.mu.Lock()
	last, given := p.shared, p.state.given[envoy.RoleEnvoy]
	p.hear()
	p.mu.Unlock()
	want := digest(given)
	if last == "" || last == want {
		return
	}
	deadline := time.NewTimer(p.ackTimeout)
	defer deadline.Stop()
	for last != want {
		select {
		case <-ctx.Done():
			return
		case <-deadline.C:
			return
		case <-p.wake:
		}
		p.mu.Lock()
		last = p.shared
		p.mu.Unlock()
	}
	_ = timing.Sleep(ctx, sharedPause) // what follows heeds its end
}

// digest leaves out epochs, which differ from one control plane to the next.
func digest(r *resources) string {
	sum := sha256.New()
	if r != nil {
		for _, typ := range slices.Sorted(maps.Keys(r.versions)) {
			for _, name := range slices.Sorted(maps.Keys(r.versions[typ])) {
				hash, _, _ := strings.Cut(r.versions[typ][name], "+")
				_, _ = fmt.Fprintf(sum, "%q %q %q\n", typ, name, hash) // never fails
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:10])
}

// Admit returns an error if the certificate of who calls is not for a role.
func (p *Publisher) Admit(ctx context.Context, role string) error {
	if c := (&client{certificate: shown(ctx)}); !c.has(p.names[role]) {
		return status.Errorf(codes.PermissionDenied, "the certificate is not for %s", p.names[role])
	}
	return nil
}
