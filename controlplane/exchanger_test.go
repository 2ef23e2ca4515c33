package controlplane

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
)

// A tokenVendor is a vendor that gives numbered tokens for a while.
type tokenVendor struct {
	life time.Duration // 0: for ever

	mu    sync.Mutex // guards what follows
	err   error
	block chan struct{} // if it is not nil, an exchange waits for it
	from  []string      // credentials that were exchanged
}

// set changes how the vendor answers from now on.
func (v *tokenVendor) set(err error, block chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.err, v.block = err, block
}

func (v *tokenVendor) exchanged() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.from)
}

func (v *tokenVendor) exchange(ctx context.Context, _ *configv1.Provider, c secret.Value) (secret.Value, time.Time,
	error) {
	v.mu.Lock()
	v.from = append(v.from, c.Reveal())
	err, block, n := v.err, v.block, len(v.from)
	v.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return secret.Value{}, time.Time{}, ctx.Err()
		}
	}
	if err != nil {
		return secret.Value{}, time.Time{}, err
	}
	expires := time.Time{}
	if v.life > 0 {
		expires = time.Now().Add(v.life)
	}
	return secret.New("token-" + strconv.Itoa(n)), expires, nil
}

func (v *tokenVendor) provider() provider.Provider {
	return provider.Provider{Name: "cloud", Exchange: v.exchange}
}

var environment = map[string]string{"A": "credential of A", "B": "credential of B"}

// resolving runs f with a resolver whose exchanges run, in a bubble with a clock of its own. What f gets returns the
// credential of the provider "a" and its error, once all that can happen has.
func resolving(t *testing.T, v *tokenVendor,
	f func(t *testing.T, resolve func(objects ...configv1.Object) (string, string))) {
	synctest.Test(t, func(t *testing.T) {
		e := newExchanger(time.Now, nil)
		r := newResolver(nil, func(name string) (string, bool) { return environment[name], true },
			map[string]provider.Provider{"cloud": v.provider(), "openai": {}}, anywhere(t, nil, "A", "B", "NONE"), e, nil, nil)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			e.run(ctx)
			close(ended)
		}()
		synctest.Wait()
		f(t, func(objects ...configv1.Object) (string, string) {
			synctest.Wait()
			byName := map[string]configv1.Object{}
			for _, o := range objects {
				byName[o.GetName()] = o
			}
			in, errs := r.resolve(configstore.State{Objects: map[string]map[string]configv1.Object{"Provider": byName}})
			credential, message := "", ""
			for _, p := range in.Providers {
				if p.GetName() == "a" {
					credential = p.GetCredential()
				}
			}
			for _, err := range errs {
				require.Equal(t, xds.Object{Kind: "Provider", Name: "a"}, err.Object)
				message = err.Err.Error()
			}
			return credential, message
		})
		stop()
		<-ended
	})
}

func cloudProvider(env string) *configv1.Provider {
	return &configv1.Provider{Name: "a", Vendor: "cloud", Endpoint: "https://cloud.test",
		Credential: &configv1.Credential{Source: &configv1.Credential_Env{Env: env}}}
}

func TestTokensAreRenewedInGoodTime(t *testing.T) {
	v := &tokenVendor{life: time.Hour}
	resolving(t, v, func(t *testing.T, resolve func(...configv1.Object) (string, string)) {
		got, message := resolve(cloudProvider("A"))
		require.Empty(t, got, "nobody waits for the first exchange")
		require.Contains(t, message, "being exchanged")
		got, message = resolve(cloudProvider("A"))
		require.Equal(t, "token-1", got)
		require.Empty(t, message)
		require.Equal(t, []string{"credential of A"}, v.exchanged())

		<-time.After(47 * time.Minute)
		got, _ = resolve(cloudProvider("A"))
		require.Equal(t, "token-1", got)
		<-time.After(2 * time.Minute)
		got, _ = resolve(cloudProvider("A"))
		require.Equal(t, "token-2", got, "after 80 % of its life")

		other := cloudProvider("A")
		other.Models = []string{"m"}
		got, _ = resolve(other)
		require.Equal(t, "token-2", got)
		require.Equal(t, 2, len(v.exchanged()), "models do not matter to it")

		resolve()
		<-time.After(2 * time.Hour)
		resolve()
		require.Equal(t, 2, len(v.exchanged()), "nothing is done for a provider that is gone")
	})
}

func TestAnExchangeThatFailsIsTriedAgainAndTheTokenStaysWhileItIsValid(t *testing.T) {
	v := &tokenVendor{life: time.Hour}
	resolving(t, v, func(t *testing.T, resolve func(...configv1.Object) (string, string)) {
		resolve(cloudProvider("A"))
		resolve(cloudProvider("A"))
		v.set(errors.New("the account is locked"), nil)
		<-time.After(50 * time.Minute)
		got, message := resolve(cloudProvider("A"))
		require.Equal(t, "token-1", got)
		require.Contains(t, message, "credential: the account is locked")
		calls := len(v.exchanged())
		require.Less(t, calls, 15, "it backs off")

		<-time.After(11 * time.Minute)
		got, message = resolve(cloudProvider("A"))
		require.Empty(t, got)
		require.Contains(t, message, "has expired")
		require.Contains(t, message, "the account is locked")
		require.Greater(t, len(v.exchanged()), calls)

		v.set(nil, nil)
		<-time.After(lastBackoff)
		got, message = resolve(cloudProvider("A"))
		require.NotEmpty(t, got)
		require.Empty(t, message)
	})
}

func TestATokenThatExpiresIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &tokenVendor{life: 10 * time.Minute}
		e := newExchanger(time.Now, nil)
		ctx, stop := context.WithCancel(t.Context())
		go e.run(ctx)
		synctest.Wait()
		<-e.changed
		_, err := e.exchange(v.provider(), cloudProvider("A"), secret.New("c"))
		require.ErrorIs(t, err, errPending)
		<-e.changed
		v.set(errors.New("no"), nil)
		start := time.Now()
		for {
			<-e.changed
			if _, err = e.exchange(v.provider(), cloudProvider("A"), secret.New("c")); errors.Is(err, errExpired) {
				break
			}
		}
		require.Equal(t, 10*time.Minute, time.Since(start), "at once, though the next attempt were later")
		stop()
		e.workers.Wait()
	})
}

func TestATokenForEverIsExchangedOnce(t *testing.T) {
	v := &tokenVendor{}
	resolving(t, v, func(t *testing.T, resolve func(...configv1.Object) (string, string)) {
		resolve(cloudProvider("A"))
		<-time.After(1000 * time.Hour)
		got, _ := resolve(cloudProvider("A"))
		require.Equal(t, "token-1", got)
		require.Equal(t, 1, len(v.exchanged()))
	})
}

func TestAnotherCredentialTakesOverOnceItIsExchanged(t *testing.T) {
	v := &tokenVendor{life: time.Hour}
	resolving(t, v, func(t *testing.T, resolve func(...configv1.Object) (string, string)) {
		resolve(cloudProvider("A"))
		resolve(cloudProvider("A"))
		block := make(chan struct{})
		v.set(nil, block)
		for range 3 {
			got, message := resolve(cloudProvider("B"))
			require.Equal(t, "token-1", got, "the old one is good until then")
			require.Empty(t, message)
		}
		require.Equal(t, []string{"credential of A", "credential of B"}, v.exchanged())
		close(block)
		got, _ := resolve(cloudProvider("B"))
		require.Equal(t, "token-2", got)

		got, message := resolve(cloudProvider("NONE"))
		require.Equal(t, "token-2", got)
		require.NotEmpty(t, message)
		<-time.After(50 * time.Minute)
		got, _ = resolve(cloudProvider("NONE"))
		require.Equal(t, "token-3", got, "renewed from the last one that could")
	})
}

func TestAnExchangeThatHangsKeepsNothingElseWaiting(t *testing.T) {
	v := &tokenVendor{life: time.Hour}
	resolving(t, v, func(t *testing.T, resolve func(...configv1.Object) (string, string)) {
		block := make(chan struct{})
		v.set(nil, block)
		start := time.Now()
		for range 5 {
			got, message := resolve(cloudProvider("A"), &configv1.Provider{Name: "b", Vendor: "openai"})
			require.Empty(t, got)
			require.NotEmpty(t, message)
		}
		require.Zero(t, time.Since(start))
		<-time.After(exchangeTimeout)
		_, message := resolve(cloudProvider("A"))
		require.Contains(t, message, "deadline")
		v.set(nil, nil)
		<-time.After(time.Second)
		got, _ := resolve(cloudProvider("A"))
		require.Equal(t, "token-2", got)
	})
}

// Whoever brings a credential of their own, even one that is good for nothing, may send it anywhere. What the one
// before was exchanged for does not go there.
func TestATokenDoesNotFollowAnotherCredentialElsewhere(t *testing.T) {
	v := &tokenVendor{life: time.Hour}
	for what, move := range map[string]func(*configv1.Provider){
		"endpoint": func(p *configv1.Provider) { p.Endpoint = "https://evil.test" },
		"region":   func(p *configv1.Provider) { p.Region = "evil" },
		"project":  func(p *configv1.Provider) { p.Project = "evil" },
		"headers":  func(p *configv1.Provider) { p.Headers = map[string]string{"x-target-url": "https://evil.test"} },
		"tls":      func(p *configv1.Provider) { p.Tls = &configv1.UpstreamTLS{ServerName: "evil.test"} },
	} {
		t.Run(what, func(t *testing.T) {
			v.set(nil, nil)
			resolving(t, v, func(t *testing.T, resolve func(...configv1.Object) (string, string)) {
				resolve(cloudProvider("A"))
				token, message := resolve(cloudProvider("A"))
				require.NotEmpty(t, token)
				require.Empty(t, message)
				v.set(errors.New("no such account"), nil)
				rotated := cloudProvider("B")
				kept, _ := resolve(rotated)
				require.Equal(t, token, kept, "where it went already")
				for _, other := range []string{"B", "A", "NONE"} { // another, its own, and one that is not there
					stolen := cloudProvider(other)
					move(stolen)
					got, _ := resolve(stolen)
					require.Empty(t, got, other)
					got, _ = resolve(stolen)
					require.Empty(t, got, other)
				}
			})
		})
	}
}

// Report 9: a provider without a token is not gone, so that its models are 503 and not 404.
func TestAProviderWaitsForItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &tokenVendor{life: time.Hour}
		v.set(errors.New("no network"), nil)
		e := newExchanger(time.Now, nil)
		ctx, stop := context.WithCancel(t.Context())
		go e.run(ctx)
		synctest.Wait()
		r := newResolver(nil, func(name string) (string, bool) { return environment[name], true },
			map[string]provider.Provider{"cloud": v.provider()}, anywhere(t, nil, "A"), e, nil, nil)
		resolve := func() *configv1.ResolvedProvider {
			synctest.Wait()
			in, _ := r.resolve(configstore.State{Objects: map[string]map[string]configv1.Object{
				"Provider": {"a": cloudProvider("A")}}})
			require.Len(t, in.Providers, 1)
			return in.Providers[0]
		}
		require.True(t, resolve().GetWaiting(), "from the start")
		require.True(t, resolve().GetWaiting(), "after an exchange that failed")
		before := len(v.exchanged())
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Greater(t, len(v.exchanged()), before, "it is tried again within two seconds")
		v.set(nil, nil)
		<-time.After(5 * time.Second)
		good := resolve()
		require.False(t, good.GetWaiting())
		require.NotEmpty(t, good.GetCredential())

		v.set(errors.New("no network"), nil)
		<-time.After(50 * time.Minute)
		require.False(t, resolve().GetWaiting(), "while the last token is valid")
		<-time.After(15 * time.Minute)
		expired := resolve()
		require.True(t, expired.GetWaiting(), "after it has expired")
		require.Empty(t, expired.GetCredential())
		stop()
		e.workers.Wait()
	})
}
