package controlplane

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/xdsclient"
)

func keyNumber(n int) *configv1.Key {
	hash := sha256.Sum256([]byte(strconv.Itoa(n)))
	return &configv1.Key{
		Name: fmt.Sprintf("key_%026d", n), DisplayName: fmt.Sprintf("service number %d", n), Hash: hash[:], Hint: "abcd",
		Organization: fmt.Sprintf("organization-%d", n%100), Project: fmt.Sprintf("project-%d", n%1000),
		Models:   []string{"openai/*"},
		Limits:   []*configv1.Limit{{Domain: "requests", Unit: configv1.Unit_MINUTE, RequestsPerUnit: uint64(100 + n%40)}},
		Budgets:  []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: "100"}},
		Metadata: map[string]string{"ticket": fmt.Sprintf("REQ-%d", n)},
	}
}

// fill stores keys, many in a transaction.
func (p *plane) fill(n int) {
	p.t.Helper()
	for from := 0; from < n; from += 120 {
		var puts []clientv3.Op
		for i := from; i < min(from+120, n); i++ {
			text, err := configv1.Marshal(keyNumber(i))
			require.NoError(p.t, err)
			puts = append(puts, clientv3.OpPut("/modelgate/v1/keys/"+keyNumber(i).GetName(), string(text)))
		}
		_, err := p.client.Txn(p.t.Context()).Then(puts...).Commit()
		require.NoError(p.t, err)
	}
}

// A replica is an ext_proc process, as far as it knows keys.
type replica struct {
	changes chan map[string]bool // whether a key that has changed is there and not disabled
}

func (p *plane) replica() *replica {
	p.t.Helper()
	conn, err := grpc.NewClient("unix://"+p.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(p.t, err)
	r := &replica{changes: make(chan map[string]bool, 1000)}
	changed := map[string]bool{}
	client := xdsclient.New(xdsclient.Options{
		Conn: conn, NodeID: "replica", Role: envoy.RoleExtProc, Logger: zap.NewNop(), Registerer: prometheus.NewRegistry(),
		Types: []*xdsclient.Type{xdsclient.Of(xdsclient.Handler[*configv1.Key]{
			Set:    func(name string, k *configv1.Key) error { changed[name] = !k.GetDisabled(); return nil },
			Remove: func(name string) { changed[name] = false },
		})},
		Publish: func(string) {
			r.changes <- changed
			changed = map[string]bool{}
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { client.Run(ctx); close(ended) }()
	p.t.Cleanup(func() { stop(); <-ended; _ = conn.Close() })
	return r
}

// await takes changes until done holds of one.
func (r *replica) await(t *testing.T, done func(map[string]bool) bool) {
	t.Helper()
	for deadline := time.After(time.Minute); ; {
		select {
		case c := <-r.changes:
			if done(c) {
				return
			}
		case <-deadline:
			t.Fatal("nothing more came")
		}
	}
}

// A key that is revoked stops working on every replica with the next change that it gets, however many keys there are:
// 5,000 here, and as many as the environment says with MODELGATE_TEST_KEYS=100000. It prints how long that takes.
func TestARevokedKeyStopsWorkingWithTheNextChange(t *testing.T) {
	n := 5_000
	if text := os.Getenv("MODELGATE_TEST_KEYS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	p := startPlane(t)
	p.fill(n)
	var replicas []*replica
	for range 4 {
		r := p.replica()
		all := 0
		r.await(t, func(c map[string]bool) bool { all += len(c); return all >= n })
		replicas = append(replicas, r)
	}
	var slowest time.Duration
	for i := range 8 {
		k := keyNumber(i * n / 8)
		start := time.Now()
		if i%2 == 0 {
			_, err := p.store.Delete(t.Context(), configv1.KindOf(k), k.GetName(), -1)
			require.NoError(t, err)
		} else {
			k.Disabled = true
			p.put(k)
		}
		for _, r := range replicas {
			changes := 0
			r.await(t, func(c map[string]bool) bool {
				changes++
				works, ok := c[k.GetName()]
				return ok && !works
			})
			require.Equal(t, 1, changes)
		}
		t.Logf("%s", time.Since(start).Round(time.Millisecond))
		slowest = max(slowest, time.Since(start))
	}
	t.Logf("%d keys, 4 replicas: at most %s", n, slowest.Round(time.Millisecond))
}

func TestWhatLimitsAreOfReachesTheExtProcService(t *testing.T) {
	p := startPlane(t, keyNumber(1),
		&configv1.Organization{Name: "acme"}, &configv1.Project{Name: "acme/web"},
		&configv1.RateLimit{Name: "users", Domain: "requests", Descriptors: []*configv1.RateLimitDescriptor{{
			Key: "key", Value: "key_gone", RateLimit: &configv1.RateLimitPolicy{Unit: configv1.Unit_MINUTE, RequestsPerUnit: 1},
		}}},
		&configv1.Account{Name: "ann", Role: configv1.Role_OWNER},
		&configv1.AdminToken{Name: "adm_1", Scopes: []string{"*"}, Hash: make([]byte, 32)},
	)
	limits := subscribe[*rlsv3.RateLimitConfig](p, envoy.RoleExtProc)
	limits.await(func() bool { return len(limits.has) == 1 })
	require.Equal(t, rlsv3.RateLimitUnit_MINUTE, limits.has["users"].GetDescriptors()[0].GetRateLimit().GetUnit())
	organizations := subscribe[*configv1.Organization](p, envoy.RoleExtProc)
	organizations.await(func() bool { return organizations.has["acme"] != nil })
	projects := subscribe[*configv1.Project](p, envoy.RoleExtProc)
	projects.await(func() bool { return projects.has["acme/web"] != nil })

	// Pitfall 94: a limit that can have no effect says so, until it can.
	require.Contains(t, p.ObjectError("RateLimit", "users"), `descriptors[0].value: there is no key "key_gone"`)
	k := keyNumber(2)
	k.Name = "key_gone"
	p.put(k)
	require.Eventually(t, func() bool { return p.ObjectError("RateLimit", "users") == "" }, 10*time.Second,
		10*time.Millisecond)

	// Who administers is nobody's business.
	accounts := subscribe[*configv1.Account](p, envoy.RoleExtProc)
	accounts.await(func() bool { return accounts.version != "" })
	require.Empty(t, accounts.has)
	tokens := subscribe[*configv1.AdminToken](p, envoy.RoleExtProc)
	tokens.await(func() bool { return tokens.version != "" })
	require.Empty(t, tokens.has)
}

func TestKeyBook(t *testing.T) {
	b := keyBook{published: map[string]*configv1.Key{}}
	state := func(keys ...*configv1.Key) configstore.State {
		objects := map[string]configv1.Object{}
		for _, k := range keys {
			objects[k.GetName()] = k
		}
		return configstore.State{Objects: map[string]map[string]configv1.Object{"Key": objects}}
	}
	one, two := keyNumber(1), keyNumber(2)
	changed, errs := b.changes(state(one, two))
	require.Empty(t, errs)
	require.Equal(t, map[string]*configv1.Key{one.Name: one, two.Name: two}, changed)
	changed, _ = b.changes(state(one, two))
	require.Empty(t, changed)

	// One that is wrong stays as it was, and is told of as long as it is.
	wrong := &configv1.Key{Name: one.Name, Hash: []byte("short")}
	for range 2 {
		changed, errs = b.changes(state(wrong))
		require.Len(t, errs, 1)
		require.EqualError(t, errs[0], "Key/"+one.Name+": hash: has 5 bytes, not 32")
		require.NotContains(t, changed, one.Name)
	}
	changed, errs = b.changes(state())
	require.Empty(t, errs)
	require.Equal(t, map[string]*configv1.Key{one.Name: nil}, changed)
	changed, _ = b.changes(state())
	require.Empty(t, changed)
}
