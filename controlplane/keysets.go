package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/identity"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/internal/jwtauth"
	"github.com/modelgate/modelgate/internal/timing"
)

const (
	// readKeysEvery is how often the keys of an issuer are read. Issuers publish a key long before they use it.
	readKeysEvery = 2 * time.Minute
	// readKeysAgain is how often they are tried again while they cannot be read.
	readKeysAgain = 10 * time.Second
)

var errUnread = errors.New("the keys of the issuer are being read; until then its tokens are refused")

// keySets reads the keys of TokenIssuers. Nobody waits for it: it works in the background and says when there is
// something new. It is safe for concurrent use.
type keySets struct {
	changed      chan<- struct{} // buffers one
	every, again time.Duration   // readKeysEvery, readKeysAgain

	mu      sync.Mutex // guards what follows
	ctx     context.Context
	read    map[string]*keySet // by where the keys are
	workers sync.WaitGroup
}

// A keySet is the keys of an issuer, as they were last read.
type keySet struct {
	jwks string // empty: never
	err  error  // of the last time
	stop context.CancelFunc
}

func newKeySets(changed chan<- struct{}) *keySets {
	return &keySets{changed: changed, every: readKeysEvery, again: readKeysAgain, read: map[string]*keySet{}}
}

// run lets keys be read until ctx is done, and waits for the last one.
func (k *keySets) run(ctx context.Context) {
	k.mu.Lock()
	k.ctx = ctx
	k.mu.Unlock()
	k.signal() // what was asked for before can begin
	<-ctx.Done()
	k.workers.Wait()
}

// of returns the issuers whose keys are known, and what is wrong with issuers. Keys that were read stay in force while
// they cannot be read again.
func (k *keySets) of(issuers []*configv1.TokenIssuer) (known []*configv1.ResolvedIssuer, errs []xds.ObjectError) {
	k.mu.Lock()
	defer k.mu.Unlock()
	used := map[string]bool{}
	for _, t := range issuers {
		if t.GetDisabled() {
			continue
		}
		if t.GetJwks() != "" {
			jwks, err := publicKeys([]byte(t.GetJwks()))
			if err != nil {
				errs = append(errs, errorOf(t, err))
				continue
			}
			known = append(known, &configv1.ResolvedIssuer{Issuer: t, Jwks: jwks})
			continue
		}
		place := strings.Join([]string{t.GetIssuer(), t.GetJwksUrl(), t.GetCa()}, "\n")
		used[place] = true
		s := k.read[place]
		if s == nil {
			s = k.follow(place, t)
		}
		if s.jwks != "" {
			known = append(known, &configv1.ResolvedIssuer{Issuer: t, Jwks: s.jwks})
		}
		if s.err != nil {
			errs = append(errs, errorOf(t, s.err))
		}
	}
	for place, s := range k.read {
		if !used[place] {
			s.stop()
			delete(k.read, place)
		}
	}
	return known, errs
}

func errorOf(t *configv1.TokenIssuer, err error) xds.ObjectError {
	return xds.ObjectError{Object: xds.Object{Kind: "TokenIssuer", Name: t.GetName()}, Err: err}
}

// settled reports whether the keys of every issuer were tried to be read, and begins to read them.
func (k *keySets) settled(issuers []*configv1.TokenIssuer) bool {
	_, errs := k.of(issuers)
	return !slices.ContainsFunc(errs, func(e xds.ObjectError) bool { return errors.Is(e.Err, errUnread) })
}

// follow begins to read the keys of an issuer. The lock is held.
func (k *keySets) follow(place string, t *configv1.TokenIssuer) *keySet {
	s := &keySet{err: errUnread, stop: func() {}}
	if k.ctx == nil {
		return s // it is asked for again
	}
	ctx, stop := context.WithCancel(k.ctx)
	s.stop = stop
	k.read[place] = s
	client := identity.Client(t.GetCa())
	k.workers.Go(func() {
		defer stop()
		for ctx.Err() == nil {
			jwks, err := readKeys(ctx, client, t)
			wait := k.every
			if err != nil {
				wait = k.again
			}
			k.keep(s, jwks, err)
			_ = timing.Sleep(ctx, wait) // its end ends the loop
		}
	})
	return s
}

// keep notes what was read, and says so if it is new.
func (k *keySets) keep(s *keySet, jwks string, err error) {
	k.mu.Lock()
	same := s.err != nil && err != nil && s.err.Error() == err.Error() || s.err == nil && err == nil && jwks == s.jwks
	if s.err = err; err == nil {
		s.jwks = jwks
	}
	k.mu.Unlock()
	if !same {
		k.signal()
	}
}

func (k *keySets) signal() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// readKeys reads the public keys of an issuer.
func readKeys(ctx context.Context, client *http.Client, t *configv1.TokenIssuer) (string, error) {
	at := t.GetJwksUrl()
	if at == "" {
		var said struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		text, err := get(ctx, client, strings.TrimRight(t.GetIssuer(), "/")+"/.well-known/openid-configuration")
		if err != nil {
			return "", err
		}
		if err := json.Unmarshal(text, &said); err != nil || said.Issuer != t.GetIssuer() || said.Keys == "" {
			return "", fmt.Errorf("what %s says of itself is not of that issuer, or names no keys", t.GetIssuer())
		}
		at = said.Keys
	}
	text, err := get(ctx, client, at)
	if err != nil {
		return "", err
	}
	return publicKeys(text)
}

// publicKeys returns the public keys of a JSON Web Key Set, as one.
func publicKeys(set []byte) (string, error) {
	keys, err := jwtauth.PublicKeys(set)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(keys)
	return string(text), err
}

func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("reading the keys: %w", err)
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("reading the keys: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading the keys: %s answered with status %d", url, answer.StatusCode)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the keys: %w", err)
	}
	return text, nil
}
