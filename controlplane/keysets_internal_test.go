package controlplane

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
)

const (
	keyOne = `{"keys":[{"kty":"EC","crv":"P-256","kid":"one","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}`
	keyTwo = `{"keys":[{"kty":"EC","crv":"P-256","kid":"two","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","d":"870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE"}]}`
)

// An issuer publishes what a test says.
type issuer struct {
	*httptest.Server

	mu   sync.Mutex
	keys string // empty: it is away
	name string
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{keys: keyOne}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		switch {
		case i.keys == "":
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.HasSuffix(r.URL.Path, "/openid-configuration"):
			_, _ = w.Write([]byte(`{"issuer":"` + i.name + `","jwks_uri":"` + i.URL + `/keys"}`))
		default:
			_, _ = w.Write([]byte(i.keys))
		}
	}))
	t.Cleanup(i.Close)
	i.name = i.URL
	return i
}

func (i *issuer) publish(keys, name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys, i.name = keys, name
}

// until waits for the key sets to say something that is as it should be.
func until(t *testing.T, changed <-chan struct{}, k *keySets, t1 *configv1.TokenIssuer,
	is func(known []*configv1.ResolvedIssuer, err error) bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		known, errs := k.of([]*configv1.TokenIssuer{t1})
		var err error
		if len(errs) > 0 {
			err = errs[0].Err
			require.Equal(t, "TokenIssuer/corp", errs[0].Object.String())
		}
		if is(known, err) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("still %v %v", known, err)
		}
	}
}

func TestKeysOfIssuersAreFollowed(t *testing.T) {
	i := newIssuer(t)
	changed := make(chan struct{}, 1)
	k := newKeySets(changed)
	k.every, k.again = 5*time.Millisecond, 5*time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.run(ctx)
	}()
	corp := &configv1.TokenIssuer{Name: "corp", Issuer: i.URL}
	until(t, changed, k, corp, func(known []*configv1.ResolvedIssuer, err error) bool {
		return err == nil && len(known) == 1 && strings.Contains(known[0].GetJwks(), `"one"`)
	})
	i.publish("", i.URL)
	until(t, changed, k, corp, func(known []*configv1.ResolvedIssuer, err error) bool {
		return err != nil && strings.Contains(err.Error(), "status 503") && len(known) == 1 // the last ones stay
	})
	i.publish(keyTwo, i.URL)
	until(t, changed, k, corp, func(known []*configv1.ResolvedIssuer, err error) bool {
		return err == nil && strings.Contains(known[0].GetJwks(), `"two"`) && !strings.Contains(known[0].GetJwks(), `"d"`)
	})
	i.publish(keyOne, "https://evil.example")
	until(t, changed, k, corp, func(_ []*configv1.ResolvedIssuer, err error) bool {
		return err != nil && strings.Contains(err.Error(), "not of that issuer")
	})
	corp = &configv1.TokenIssuer{Name: "corp", Issuer: i.URL, JwksUrl: i.URL + "/keys"}
	until(t, changed, k, corp, func(known []*configv1.ResolvedIssuer, err error) bool {
		return err == nil && strings.Contains(known[0].GetJwks(), `"one"`)
	})
	require.Len(t, k.read, 1, "the one before is not read any more")
	known, errs := k.of([]*configv1.TokenIssuer{{Name: "corp", Issuer: i.URL, Disabled: true}})
	require.Empty(t, known)
	require.Empty(t, errs)
	require.Empty(t, k.read)
	stop()
	<-done
}

func TestKeysThatAnIssuerSaysItselfAreNotRead(t *testing.T) {
	k := newKeySets(make(chan struct{}, 1))
	cluster := &configv1.TokenIssuer{Name: "cluster", Issuer: "https://kubernetes.default.svc", Jwks: keyOne}
	known, errs := k.of([]*configv1.TokenIssuer{cluster})
	require.Empty(t, errs)
	require.Len(t, known, 1)
	require.Contains(t, known[0].GetJwks(), `"one"`)
	require.True(t, k.settled([]*configv1.TokenIssuer{cluster}), "nobody waits for it")
	require.Empty(t, k.read)
	cluster.Jwks = `{"keys":[{"kty":"new"}]}`
	known, errs = k.of([]*configv1.TokenIssuer{cluster})
	require.Empty(t, known)
	require.EqualError(t, errs[0].Err, "the JSON Web Key Set has no public key for signatures")
	require.Equal(t, "TokenIssuer/cluster", errs[0].Object.String())
}

// What the data plane has of an issuer is not taken from it because a control plane has just begun, and whoever
// applies a new one is not told first that it has no effect.
func TestTheKeysOfIssuersAreWaitedFor(t *testing.T) {
	i := newIssuer(t)
	corp := &configv1.TokenIssuer{Name: "corp", Issuer: i.URL, Audiences: []string{"a"},
		Bindings: []*configv1.TokenBinding{{Key: "key_1"}}}
	away := proto.CloneOf(corp)
	away.Name, away.Issuer = "away", "http://127.0.0.1:1"
	p := startPlane(t, corp, away)
	s := subscribe[*configv1.Settings](p, envoy.RoleExtProc)
	s.await(func() bool { return s.has["default"] != nil })
	require.Len(t, s.has["default"].GetIssuers(), 1, "from the first configuration on")
	require.Contains(t, p.ObjectError("TokenIssuer", "away"), "connection refused")
	second := proto.CloneOf(corp)
	second.Name, second.JwksUrl = "second", i.URL+"/keys"
	p.put(second)
	s.await(func() bool {
		require.NotContains(t, p.ObjectError("TokenIssuer", "second"), "are being read")
		return len(s.has["default"].GetIssuers()) == 2
	})
}
