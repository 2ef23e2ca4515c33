package playground

import (
	"context"
	"maps"
	"sync"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

const (
	// playKeyLife is for how long a key of the playground works. It is made anew while somebody goes on. A key for a
	// trial lives as long.
	playKeyLife = configv1.TrialLife
	// playKeyLabel is the metadata of such a key. Its value is the account.
	playKeyLabel = "playground"
)

// A playKey is the key that a session uses in the playground.
type playKey struct {
	id, key string
	expires time.Time
}

// playKeys are the keys of the sessions that use the playground at this control plane. They are only in memory: after
// a restart a session gets another one, and the old one expires.
type playKeys struct {
	making sync.Mutex // held while a key is made, so that two chats at once get the same
	mu     sync.Mutex // guards keys
	keys   map[string]playKey
}

// take removes and returns the key of a session, if it has one.
func (p *playKeys) take(session string) (playKey, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.keys[session]
	delete(p.keys, session)
	return k, ok
}

// put keeps the key of a session, and forgets those that have expired.
func (p *playKeys) put(session string, k playKey, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.keys, func(_ string, k playKey) bool { return k.expires.Before(now) })
	p.keys[session] = k
}

// playKey returns the key of the visitor's session. It makes one, as the visitor could on the page Keys, if there is
// none that works for a while yet.
func (s *section) playKey(ctx context.Context, v *page.Visit) (string, error) {
	s.keys.making.Lock()
	defer s.keys.making.Unlock()
	session, now := v.SessionID, v.Now()
	k, ok := s.keys.take(session)
	if ok && k.expires.Sub(now) > playKeyLife/4 {
		s.keys.put(session, k, now)
		return k.key, nil
	}
	if err := dropPlayKeys(ctx, v, now); err != nil {
		return "", err
	}
	expires := now.Add(playKeyLife).Truncate(time.Second)
	made, err := v.API.CreateTrialKey(ctx, adminapi.KeyRequest{DisplayName: "Playground of " + v.Account.GetName(),
		ExpiresAt: &expires, Metadata: map[string]string{playKeyLabel: v.Account.GetName()}})
	if err != nil {
		return "", err
	}
	s.keys.put(session, playKey{made.ID, made.Key, expires}, now)
	return made.Key, nil
}

// dropPlayKeys deletes the keys that the visitor's playground has used and that have expired.
func dropPlayKeys(ctx context.Context, v *page.Visit, now time.Time) error {
	part, err := v.API.ListPage(ctx, configv1.KeyKind(),
		adminapi.ListOptions{Query: "Playground of " + v.Account.GetName(),
			Limit: page.Size})
	if err != nil {
		return err
	}
	for _, item := range part.Items {
		k, ok := item.Object.(*configv1.Key)
		if ok && k.GetMetadata()[playKeyLabel] == v.Account.GetName() && k.GetExpiresAt().AsTime().Before(now) {
			if err := v.API.Delete(ctx, configv1.KeyKind(), k.GetName()); err != nil {
				return err
			}
		}
	}
	return nil
}

// endPlayKey deletes the key of a session that ends. A key that stays expires.
func (s *section) endPlayKey(ctx context.Context, v *page.Visit) {
	if k, ok := s.keys.take(v.SessionID); ok {
		_ = v.API.Delete(ctx, configv1.KeyKind(), k.id)
	}
}
