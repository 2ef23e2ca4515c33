package ha

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// awayFor is for how long something is away at least.
const awayFor = 4 * time.Second

// TestWhatIsAwayStopsNothing takes every part away that requests do not pass through, and then some that they do. In
// the latter case what fails is counted: nothing but what the lost process carried.
func TestWhatIsAwayStopsNothing(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	c := newCluster(t)
	l := startLoad(c)
	l.pass(t)
	binary := harness.Binary(t)
	for _, step := range []struct {
		name string
		do   func(t *testing.T)
	}{
		{"a member of etcd is killed", func(t *testing.T) {
			c.etcd[0].Kill()
			l.pass(t)
			c.etcd[0].Restart(c.t)
			c.awaitEtcd(t)
		}},
		{"both control planes are killed", func(t *testing.T) {
			for _, p := range c.planes {
				p.running.Kill()
			}
			l.pass(t)
			for _, p := range c.planes {
				p.start(binary)
			}
		}},
		{"PostgreSQL is away and the spools grow", func(t *testing.T) {
			c.postgres.close()
			l.pass(t)
			require.Positive(t, c.backlog(t), "records wait")
			// A control plane that starts meanwhile serves, too.
			c.planes[0].running.Kill()
			c.planes[0].launch(binary)
			c.planes[0].awaitServing()
			c.postgres.open(c.t)
			c.planes[0].awaitReady()
			harness.Eventually(t, "the spools are empty but for what is under way", func() error {
				if n := c.backlog(t); n > 50 {
					return fmt.Errorf("%d records wait", n)
				}
				return nil
			})
		}},
	} {
		l.during(t, step.name, step.do)
	}
	t.Run("a job service is killed and the other takes its batch up", func(t *testing.T) { c.jobServiceKilled(t, l) })
	t.Run("the ledger is exact", func(t *testing.T) {
		l.halt()
		l.requireExact(t, 0)
	})
	t.Run("all of etcd is away", c.etcdAway)
	t.Run("a data plane is killed", c.dataPlaneKilled)
}

// awaitServing waits until the process itself says that it serves xDS, which it does without a ledger.
func (p *part) awaitServing() { p.running.WaitFor(p.t, "serving xDS") }

// backlog is how many records wait in the spools.
func (c *cluster) backlog(t *testing.T) int {
	t.Helper()
	total := 0
	for _, d := range c.data {
		response, err := http.Get("http://" + d.metrics + "/metrics")
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		n, found := 0, false
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "modelgate_ledger_backlog_records ") {
				_, err := fmt.Sscan(strings.Fields(line)[1], &n)
				require.NoError(t, err)
				found = true
			}
		}
		require.True(t, found, "%s", text)
		total += n
	}
	return total
}

// etcdAway stops all of etcd, once so that connections hang and once so that they break. Jobs need etcd, so that this
// load is without.
func (c *cluster) etcdAway(t *testing.T) {
	jobs := c.client()
	batch, err := begin(jobs)
	require.NoError(t, err)
	l := startLoadOf(c, t, false)
	l.pass(t)
	for _, hang := range []bool{true, false} {
		m := l.mark()
		for _, e := range c.etcd {
			if hang {
				testenv.Pause(t, e.PID())
			} else {
				e.Kill()
			}
		}
		for began := time.Now(); time.Since(began) < awayFor; {
			l.pass(t)
		}
		for _, e := range c.etcd {
			if hang {
				require.NoError(t, syscall.Kill(e.PID(), syscall.SIGCONT))
			} else {
				e.Restart(c.t)
			}
		}
		c.awaitEtcd(t)
		l.since(t, m)
		// Changes are taken again, and arrive.
		_, key := c.createKey(t, 1, "after")
		c.accepts(t, key, http.StatusOK)
	}
	l.halt()
	// The batch that was running goes on by itself.
	b := jobs.Await(t, batch)
	require.Equal(t, "completed", b.Status)
	require.NoError(t, checkOutput(jobs, *b.OutputFileID))
}

// jobServiceKilled kills one job service after the other. Of the requests that clients make of it, one at a time may
// be there; no batch is lost.
func (c *cluster) jobServiceKilled(t *testing.T, l *load) {
	for _, p := range c.jobs {
		m := l.mark()
		c.jobService.retire(p.at) // it gets no new connections: those that it refused would say nothing of batches
		p.running.Kill()
		l.mayCut += batchLines
		l.pass(t)
		p.launch(harness.Binary(t))
		c.jobService.unretire(p.at)
		p.awaitReady()
		failed := l.failures(t, m)
		require.LessOrEqual(t, len(failed), 1, "%v", failed)
		for _, what := range failed {
			require.Contains(t, what, "jobs_unavailable")
		}
	}
}

// dataPlaneKilled kills an Envoy with all that it carries, and the ext_proc service beside it. Every client has a
// connection of its own, and one request at a time on it: what may fail is one for each connection that was there, or
// was led there before the service had noticed.
func (c *cluster) dataPlaneKilled(t *testing.T) {
	l := startLoadOf(c, t, true)
	l.pass(t)
	for i, d := range c.data {
		m := l.mark()
		carried, before := c.gateway.carried(d.at)
		d.envoy.Kill()
		d.extproc.Kill()
		harness.Eventually(t, "the service notices", func() error {
			if c.gateway.isReady(d.at) {
				return errors.New("not yet")
			}
			return nil
		})
		_, until := c.gateway.carried(d.at)
		l.pass(t)
		d.taken++ // the same spool: what it had not shipped is not lost
		d.start(harness.Binary(t))
		failed := l.failures(t, m)
		t.Logf("data plane %d had %d connections, and was led %d more; %d requests failed: %s", i, carried, until-before,
			len(failed), strings.Join(failed, "; "))
		require.LessOrEqual(t, len(failed), carried+until-before)
	}
	l.halt()
	l.requireExact(t, len(l.failed))
}
