package controlplane

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/cloud"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/timing"
)

const (
	exchangeTimeout = 30 * time.Second // of one exchange
	firstBackoff    = time.Second      // before an exchange that failed is tried again; it doubles
	lastBackoff     = time.Minute
	// renewAt is the part of its life after which an exchanged credential is renewed.
	renewAt = 0.8
)

var (
	errPending = errors.New("it is being exchanged for a token; until there is one, the provider takes no requests")
	errExpired = errors.New("the token has expired and could not be renewed; the provider takes no requests")
)

// An exchanger exchanges the credentials of providers for such as their vendors take, and renews those in good time.
// Nobody waits for it: it works in the background and says when there is something new. It is safe for concurrent use.
type exchanger struct {
	now    func() time.Time
	clouds *cloud.Clouds // of the process's identities
	// identity stands for these in the place of a credential. It is random, so that nobody can give a credential that is
	// taken for it.
	identity string
	changed  chan struct{} // buffers one: a token has come or gone, or an error has

	mu      sync.Mutex // guards what follows
	ctx     context.Context
	tokens  map[string]*token // by provider
	workers sync.WaitGroup
}

// A token is the result of the last exchange of a provider's credential, and the work on the next one.
type token struct {
	of      [sha256.Size]byte // what it is exchanged from
	place   [sha256.Size]byte // hash of the places it may be sent to
	from    [sha256.Size]byte // what value was exchanged from: it may be an earlier credential
	value   secret.Value
	expires time.Time // zero: never
	err     error     // of the last exchange
	stop    context.CancelFunc
}

func newExchanger(now func() time.Time, clouds *cloud.Clouds) *exchanger {
	return &exchanger{now: now, clouds: clouds, identity: rand.Text(), changed: make(chan struct{}, 1),
		tokens: map[string]*token{}}
}

// run lets exchanges happen until ctx is done, and waits for the last one.
func (e *exchanger) run(ctx context.Context) {
	e.mu.Lock()
	e.ctx = ctx
	e.mu.Unlock()
	e.signal() // what was asked for before can begin
	<-ctx.Done()
	e.workers.Wait()
}

// exchange returns what the credential of a provider was exchanged for, and begins to exchange it if nothing does.
// The token of an earlier credential is returned until there is a newer one or it has expired, as long as it goes
// where it went: who brings a credential of their own may send that anywhere, and not what somebody else's was
// exchanged for. An error may come with a token: it could not be renewed.
func (e *exchanger) exchange(v provider.Provider, p *configv1.Provider, credential secret.Value) (secret.Value,
	error) {
	of, err := fingerprint(p, credential)
	if err != nil {
		return secret.Value{}, err
	}
	place, err := placeOf(p)
	if err != nil {
		return secret.Value{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tokens[p.GetName()]
	if (t == nil || t.of != of || t.place != place) && e.ctx != nil && e.ctx.Err() == nil {
		next := &token{of: of, place: place, err: errPending}
		if t != nil {
			t.stop()
			if t.place == place || t.from == of {
				next.from, next.value, next.expires = t.from, t.value, t.expires
			}
		}
		e.tokens[p.GetName()], t = next, next
		e.begin(next, v, p, credential)
	}
	if t == nil {
		return secret.Value{}, errPending
	}
	return t.now(e.now())
}

// last returns the token of a provider whose credential cannot be had, which is renewed from the last one that could.
// It goes where it went, or nowhere. The error says what became of it.
func (e *exchanger) last(p *configv1.Provider) (secret.Value, error) {
	place, err := placeOf(p)
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tokens[p.GetName()]
	if err != nil || t == nil || t.place != place {
		return secret.Value{}, err
	}
	return t.now(e.now())
}

// now returns the token as long as it is valid, and what is wrong with it or its renewal.
func (t *token) now(now time.Time) (secret.Value, error) {
	switch {
	case t.value.IsZero():
		return t.value, t.err
	case !t.expires.IsZero() && !now.Before(t.expires):
		return secret.Value{}, errors.Join(errExpired, t.err)
	case errors.Is(t.err, errPending):
		return t.value, nil
	}
	return t.value, t.err
}

// fingerprint tells what a credential is exchanged from. Models and the like do not matter to it.
func fingerprint(p *configv1.Provider, credential secret.Value) ([sha256.Size]byte, error) {
	return hashOf(&configv1.Provider{Name: p.GetName(), Vendor: p.GetVendor(), Endpoint: p.GetEndpoint(),
		Region: p.GetRegion(), Project: p.GetProject(), ApiVersion: p.GetApiVersion()}, credential)
}

// placeOf tells who sees what a credential is exchanged for: it differs where a field does that decides it.
func placeOf(p *configv1.Provider) ([sha256.Size]byte, error) {
	return hashOf(&configv1.Provider{Vendor: p.GetVendor(), Endpoint: p.GetEndpoint(), Region: p.GetRegion(),
		Project: p.GetProject(), Headers: p.GetHeaders(), Tls: p.GetTls()}, secret.Value{})
}

func hashOf(p *configv1.Provider, credential secret.Value) ([sha256.Size]byte, error) {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("marshaling the provider: %w", err)
	}
	return sha256.Sum256(append(append(text, 0), credential.Reveal()...)), nil
}

// begin has a worker keep t new. The lock is held.
func (e *exchanger) begin(t *token, v provider.Provider, p *configv1.Provider, credential secret.Value) {
	ctx, stop := context.WithCancel(e.ctx)
	t.stop = stop
	e.workers.Go(func() {
		defer stop()
		e.renew(ctx, t, func() (secret.Value, time.Time, error) {
			attempt, cancel := context.WithTimeout(ctx, exchangeTimeout)
			defer cancel()
			if who := p.GetCredential().GetWorkloadIdentity(); who != nil {
				return e.clouds.Credential(attempt, cloud.Identity{Cloud: v.Cloud, As: who.GetAs(), Region: p.GetRegion(),
					Scope: v.CloudScope})
			}
			return v.Exchange(attempt, p, credential)
		})
	})
}

// renew exchanges again and again, until ctx is done or there is a token for ever.
func (e *exchanger) renew(ctx context.Context, t *token, exchange func() (secret.Value, time.Time, error)) {
	for backoff := firstBackoff; ; {
		value, expires, err := exchange()
		if err == nil && value.IsZero() {
			err = errors.New("the vendor gave an empty token")
		}
		if ctx.Err() != nil {
			return
		}
		wait := backoff
		e.mu.Lock()
		if t.err = err; err == nil {
			t.from, t.value, t.expires = t.of, value, expires
			wait, backoff = time.Duration(renewAt*float64(expires.Sub(e.now()))), firstBackoff
			wait = max(wait, firstBackoff)
		} else {
			backoff = min(2*backoff, lastBackoff)
			if left := t.expires.Sub(e.now()); !t.value.IsZero() && left > 0 {
				wait = min(wait, left) // to withdraw the token as it expires
			}
		}
		e.mu.Unlock()
		e.signal()
		if err == nil && expires.IsZero() {
			return
		}
		if timing.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// keep forgets the tokens of providers that are not among those named.
func (e *exchanger) keep(names map[string]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, t := range e.tokens {
		if !names[name] {
			t.stop()
			delete(e.tokens, name)
		}
	}
}

func (e *exchanger) signal() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}
