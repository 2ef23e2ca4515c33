package ha

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/pgtest"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// A region has one of each process. The etcd and the ledger of all regions are at the end of lines that can be cut.
type region struct {
	*cluster
	line *service // to etcd
}

// startRegions starts two, which have no Redis in common.
func startRegions(t testing.TB) (all [2]region) {
	database, etcd, port := pgtest.Start(t), harness.StartEtcds(t, 1), harness.FreePort(t)
	home := func() *cluster { return all[0].cluster }
	for i := range all {
		dir, err := os.MkdirTemp("", "ha")
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		c := &cluster{t: t, dir: dir, etcd: etcd, database: database}
		line := newService(t, loopback(t), &endpoint{address: strings.TrimPrefix(etcd[0].Endpoint(), "http://"),
			probe: func(context.Context) error { return nil }})
		all[i] = region{c, line}
		c.placeLedger()
		c.xds = newService(t, loopback(t), c.placePlane("http://"+line.address))
		c.planes[0].service = c.xds
		d := c.placeData(i, port)
		c.data = []*dataPlane{d}
		c.gateway = newService(t, loopback(t), d.at)
		c.internal = newService(t, c.socket("internal.sock"), d.internal)
		c.URL = "https://" + c.gateway.address
		if i > 0 { // as an operator brings them there
			for _, name := range []string{pepper, adminToken} {
				text, err := os.ReadFile(filepath.Join(home().dir, name))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
			}
		}
		c.planes[0].start(harness.Binary(t))
		if i == 0 {
			c.objects(uint32(port))
			c.configure()
		}
		c.key, c.authorities = home().key, home().authorities
		d.start(harness.Binary(t))
		c.accepts(t, c.key, http.StatusOK)
	}
	return all
}

// admits returns how many requests of a key are admitted before the first is refused by a limit.
func (r region) admits(t *testing.T, key string) (n int) {
	t.Helper()
	harness.Eventually(t, "a limit refuses", func() error {
		status, err := r.as(key, "vendor/probe")
		for ; err == nil && status == http.StatusOK; n++ {
			status, err = r.as(key, "vendor/probe")
		}
		if status != http.StatusTooManyRequests {
			return errors.Join(err, fmt.Errorf("status %d after %d requests", status, n))
		}
		return nil
	})
	return n
}

// answers requires a status of one request.
func (r region) answers(t *testing.T, key string, want int) {
	t.Helper()
	status, err := r.as(key, "vendor/probe")
	require.NoError(t, err)
	require.Equal(t, want, status)
}

// refuses waits until a key is not valid. An address that asks too often without one is refused by another status.
func (r region) refuses(t *testing.T, key string) {
	t.Helper()
	harness.Eventually(t, "the key is refused", func() error {
		status, err := r.as(key, "vendor/probe")
		if err == nil && status == http.StatusOK {
			err = errors.New("it is accepted")
		}
		return err
	})
}

// TestARegionThatIsCutOffGoesOn: it serves what it knows, keeps its records, and is one with the others afterwards.
func TestARegionThatIsCutOffGoesOn(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	regions := startRegions(t)
	home, far := regions[0], regions[1]

	_, divided := home.createKey(t, 0, "divided", "--limit", "requests:hour:20")
	require.Equal(t, []int{10, 10}, []int{home.admits(t, divided), far.admits(t, divided)})
	id, revoked := far.createKey(t, 0, "revoked")
	home.accepts(t, revoked, http.StatusOK)

	here, there := startLoadOf(home.cluster, t, false), startLoadOf(far.cluster, t, false)
	here.pass(t)
	there.pass(t)
	m, n := here.mark(), there.mark()
	far.line.close()
	far.postgres.close()
	there.pass(t)
	out, err := harness.Command(t, "", append([]string{"key", "revoke", id, "--timeout", "1s"}, home.server(0)...)...)
	require.Error(t, err)
	require.Contains(t, out, "not yet active everywhere")
	home.refuses(t, revoked)
	_, fresh := home.createKey(t, 0, "fresh", "--no-wait")
	home.accepts(t, fresh, http.StatusOK)
	far.answers(t, revoked, http.StatusOK)
	far.answers(t, fresh, http.StatusUnauthorized)
	out, err = harness.Command(t, "", append([]string{"key", "create", "--name", "nowhere"}, far.server(0)...)...)
	require.Error(t, err)
	require.Contains(t, out, "The configuration store is unreachable")
	far.data[0].takeOver(harness.Binary(t)) // a process that starts meanwhile serves, too
	there.pass(t)
	require.Positive(t, far.backlog(t), "records wait")
	far.planes[0].running.Kill()
	far.planes[0].launch(harness.Binary(t))
	there.pass(t)

	far.line.open(t)
	far.postgres.open(t)
	far.planes[0].awaitReady()
	far.accepts(t, fresh, http.StatusOK)
	far.refuses(t, revoked)
	here.since(t, m)
	there.since(t, n)
	far.data[0].takeOver(harness.Binary(t)) // with the spool that was left
	for _, l := range []*load{here, there} {
		l.halt()
		l.requireExact(t, 0)
	}
}
