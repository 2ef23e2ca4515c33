package ha

import (
	"database/sql"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// TestWhatIsLostIsRestored makes backups under load and restores them, while the data planes stay up and serve.
func TestWhatIsLostIsRestored(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	c := newCluster(t)
	t.Run("etcd and ledger are lost", c.allLost)
	t.Run("etcd alone is lost under control planes that stay", c.etcdLost)
}

// backup makes one and returns its file.
func (c *cluster) backup(t *testing.T, flags ...string) string {
	t.Helper()
	path := filepath.Join(c.dir, "backup-"+time.Now().Format("150405.000"))
	t.Log(harness.Must(t, "", append([]string{"backup", "--etcd-endpoints", c.etcdEndpoints(), "-o", path}, flags...)...))
	return path
}

func (c *cluster) restore(t *testing.T, path, pepper string, flags ...string) (string, error) {
	t.Helper()
	return harness.Command(t, "", append([]string{"restore", path, "--etcd-endpoints", c.etcdEndpoints(), "--pepper",
		pepper}, flags...)...)
}

// loseEtcd has all of etcd come back empty.
func (c *cluster) loseEtcd(t *testing.T) {
	for _, e := range c.etcd {
		e.Kill()
		e.Lose(c.t)
	}
	for _, e := range c.etcd {
		e.Restart(c.t)
	}
	c.awaitEtcd(t)
}

// loseLedger drops the database and makes an empty one.
func (c *cluster) loseLedger(t *testing.T) {
	u, err := url.Parse(c.database)
	require.NoError(t, err)
	name := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	db, err := sql.Open("pgx", u.String())
	require.NoError(t, err)
	defer db.Close()
	for _, statement := range []string{"DROP DATABASE " + name + " WITH (FORCE)", "CREATE DATABASE " + name} {
		_, err = db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
}

// loseCounters empties Redis.
func (c *cluster) loseCounters(t *testing.T) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.redis.URL, "redis://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("FLUSHALL\r\n"))
	require.NoError(t, err)
	answer := make([]byte, 5)
	_, err = conn.Read(answer)
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", string(answer))
}

// allLost is a disaster of all that is kept.
func (c *cluster) allLost(t *testing.T) {
	binary := harness.Binary(t)
	price := harness.Documents(t, &configv1.Catalog{Name: "default",
		Models: []*configv1.ModelFacts{{Models: []string{"probe"}, Price: &configv1.Price{Input: "1000", Output: "1000"}}}})
	harness.Must(t, price, append([]string{"config", "apply", "-f", "-"}, c.server(0)...)...)
	_, poor := c.createKey(t, 0, "poor", "--budget-usd-day", "0.05")
	_, revoked := c.createKey(t, 0, "revoked later")
	c.accepts(t, revoked, http.StatusOK)
	c.accepts(t, poor, http.StatusTooManyRequests)
	l := startLoad(c)
	after := prepareLoad(c, t) // asks once all is lost
	l.pass(t)
	jobs := c.client()
	batch, err := begin(jobs)
	require.NoError(t, err)
	m := l.mark()
	path := c.backup(t, "--ledger", c.database)
	_, later := c.createKey(t, 0, "made after the backup")
	c.accepts(t, later, http.StatusOK)
	l.since(t, m)
	l.halt()

	for i := range replicas {
		c.planes[i].running.Kill()
		c.jobs[i].running.Kill()
	}
	after.start(t, false)
	m = after.mark()
	c.loseEtcd(t)
	c.loseLedger(t)
	c.loseCounters(t)
	pepper := filepath.Join(c.dir, "pepper")

	other := filepath.Join(c.dir, "other-pepper")
	require.NoError(t, os.WriteFile(other, []byte(strings.Repeat("ab", 32)+"\n"), 0o600))
	out, err := c.restore(t, path, other, "--ledger", c.database)
	require.Error(t, err)
	require.Contains(t, out, "another root secret")
	cut := filepath.Join(c.dir, "cut")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cut, whole[:len(whole)-100], 0o600))
	out, err = c.restore(t, cut, pepper, "--ledger", c.database)
	require.Error(t, err)
	require.Contains(t, out, "not a whole backup")

	out, err = c.restore(t, path, pepper, "--ledger", c.database)
	require.NoError(t, err, out)
	t.Log(out)
	out, err = c.restore(t, path, pepper, "--without-ledger")
	require.Error(t, err)
	require.Contains(t, out, "etcd is not empty")

	for i := range replicas {
		c.planes[i].start(binary)
	}
	for i := range replicas {
		c.jobs[i].start(binary)
	}
	// What is served is what was saved, by data planes that knew more.
	c.accepts(t, later, http.StatusUnauthorized)
	c.accepts(t, c.key, http.StatusOK)
	c.accepts(t, poor, http.StatusTooManyRequests)
	_, fresh := c.createKey(t, 1, "made after the restore")
	c.accepts(t, fresh, http.StatusOK)
	b := jobs.Await(t, batch)
	require.Equal(t, "completed", b.Status)
	require.NoError(t, checkOutput(jobs, *b.OutputFileID))
	after.since(t, m)
	after.halt()
	after.requireExact(t, 0)
	c.requireSound(t, l)
}

// requireSound requires that what the ledger has of a load, part of which it has lost, is nothing but what it asked,
// and that sums are those of it.
func (c *cluster) requireSound(t *testing.T, l *load) {
	t.Helper()
	db, err := sql.Open("pgx", c.database)
	require.NoError(t, err)
	defer db.Close()
	all, err := l.charged(t.Context(), db)
	require.NoError(t, err)
	sum := int64(0)
	for id, tokens := range all.requests {
		require.Equal(t, l.answered[id], tokens)
		sum += tokens
	}
	for _, tokens := range all.lines {
		sum += tokens
	}
	require.Empty(t, all.unclean)
	require.Equal(t, sum, all.sum)
	require.NotEmpty(t, all.requests)
	t.Logf("of %d requests before the backup and until all was lost, the ledger has %d", len(l.answered),
		len(all.requests))
}

// etcdLost is a disaster of etcd alone. Nothing else is stopped.
func (c *cluster) etcdLost(t *testing.T) {
	l := startLoadOf(c, t, false)
	path := c.backup(t, "--without-ledger")
	_, later := c.createKey(t, 0, "made after the second backup")
	c.accepts(t, later, http.StatusOK)
	l.pass(t)
	m := l.mark()
	c.loseEtcd(t)
	for i, p := range c.planes {
		p.running.WaitFor(t, "etcd has lost the configuration")
		require.True(t, c.xds.isReady(p.at), "control plane %d serves what it had", i)
	}
	l.pass(t)
	out, err := c.restore(t, path, filepath.Join(c.dir, "pepper"), "--without-ledger")
	require.NoError(t, err, out)
	c.accepts(t, later, http.StatusUnauthorized)
	for i := range c.planes {
		harness.Eventually(t, "changes are taken again", func() error {
			out, err := harness.Command(t, "kind: Model\nname: restored\ntargets: [{provider: vendor, model: probe}]\n",
				append([]string{"config", "apply", "-f", "-"}, c.server(i)...)...)
			if err != nil {
				return fmt.Errorf("%s: %w", out, err)
			}
			return nil
		})
		_, key := c.createKey(t, i, "made after the second restore")
		c.accepts(t, key, http.StatusOK)
	}
	l.since(t, m)
	l.halt()
	l.requireExact(t, 0)
	// Job services have found out by themselves.
	jobs := c.client()
	batch, err := begin(jobs)
	require.NoError(t, err)
	b := jobs.Await(t, batch)
	require.Equal(t, "completed", b.Status)
	require.NoError(t, checkOutput(jobs, *b.OutputFileID))
}
