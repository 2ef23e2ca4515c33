package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/internal/redistest"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// replicas of Envoy and the ext_proc service, and clients that flood them.
const (
	replicas = 4
	clients  = 200
)

// A cluster is a gateway of several replicas: each an Envoy and an ext_proc service of its own, on one port, over one
// Redis.
type cluster struct {
	*split
	redis    *redistest.Server
	extprocs []*harness.Process
}

// startCluster starts one with further flags of the ext_proc services.
func startCluster(t *testing.T, flags ...string) *cluster {
	return startClusterOf(t, nil, flags...)
}

// startClusterOf starts one with further objects.
func startClusterOf(t *testing.T, objects []configv1.Object, flags ...string) *cluster {
	c := &cluster{split: newSplit(t)}
	c.extra = objects
	c.redis = redistest.Start(t, redistest.Persistent()...)
	c.listen = [2]string{c.socket("xds0"), c.socket("xds1")}
	c.client = []string{"--xds-address", c.listen[0]}
	for i := range c.planes {
		c.planes[i] = c.startPlane(i)
	}
	c.configure()
	for i := range replicas {
		c.startReplica(i, flags)
	}
	c.awaitService()
	return c
}

func (c *cluster) startReplica(i int, flags []string) {
	n := strconv.Itoa(i)
	args := []string{"extproc", "--listen", c.socket("extproc" + n), "--admin", "127.0.0.1:0", "--node", "extproc" + n,
		"--limits", c.redis.URL, "--spool", filepath.Join(c.Dir, "spool"+n)}
	extproc := harness.Launch(c.t, nil, append(append(args, c.client...), flags...)...)
	extproc.WaitFor(c.t, "configuration received")
	c.extprocs = append(c.extprocs, extproc)
	text := harness.Must(c.t, "", append([]string{"envoy", "bootstrap", "--node", "envoy" + n, "--extproc",
		c.socket("extproc" + n),
		"--admin-socket", filepath.Join(c.Dir, "envoy"+n+".sock")}, c.client...)...)
	path := filepath.Join(c.Dir, "envoy"+n+".yaml")
	require.NoError(c.t, os.WriteFile(path, []byte(text), 0o600))
	cmd := exec.Command(testenv.Envoy(c.t), "-c", path, "--disable-hot-restart", "--concurrency", "1", "--log-level",
		"warning")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	harness.Start(c.t, cmd)
	admin := process.NewAdmin(filepath.Join(c.Dir, "envoy"+n+".sock"))
	harness.Eventually(c.t, "envoy"+n+" serves", func() error { // otherwise the others may get all connections
		if err := admin.Ready(c.t.Context()); err != nil {
			return err
		}
		bound, err := admin.Listeners(c.t.Context())
		if err == nil && len(bound) == 0 {
			return errStill
		}
		return err
	})
}

// limitedKey makes a key with limits and waits until it works.
func (c *cluster) limitedKey(flags ...string) string {
	made := harness.Decode(c.t, harness.Must(c.t, "",
		append(append([]string{"key", "create", "--name", "limited", "-o", "json"}, flags...), c.at(0)...)...))
	key := made["key"].(string)
	harness.Eventually(c.t, "the key works", func() error { return c.accepts(key) })
	return key
}

// A flood is what came of many clients asking at once.
type flood struct {
	admitted, refused, unavailable atomic.Int64
	other                          sync.Map // status -> body
}

// flood has all clients ask, each over a connection of its own, until each has asked n times.
func (c *cluster) flood(key string, n int, during func()) *flood {
	f := &flood{}
	var all sync.WaitGroup
	for range clients {
		client := &gateway{&harness.Gateway{URL: c.URL, Client: harness.ClientFor(c.t, filepath.Join(c.Dir, "ca.crt"))}}
		all.Go(func() {
			for range n {
				status, body, err := client.post("/v1/chat/completions", key,
					`{"model":"echo/echo","max_tokens":2,"messages":[{"role":"user","content":"one two"}]}`)
				switch {
				case err == nil && status == http.StatusOK:
					f.admitted.Add(1)
				case err == nil && status == http.StatusTooManyRequests:
					f.refused.Add(1)
				case err == nil && status == http.StatusServiceUnavailable:
					f.unavailable.Add(1)
				default:
					f.other.Store(status, fmt.Sprint(body, err))
				}
			}
		})
	}
	if during != nil {
		during()
	}
	all.Wait()
	c.t.Logf("admitted %d, refused %d, without the store %d", f.admitted.Load(), f.refused.Load(), f.unavailable.Load())
	f.other.Range(func(status, body any) bool {
		c.t.Errorf("status %v: %v", status, body)
		return true
	})
	return f
}

// exhaust asks one after the other until so many are admitted, and then until one is refused. What is refused before
// that may be for what others have reserved: it is settled shortly after their answers have ended.
func (c *cluster) exhaust(t *testing.T, key string, f *flood, least int64) {
	t.Helper()
	harness.Eventually(t, "all of the limit is used", func() error {
		status, body, err := c.post("/v1/chat/completions", key,
			`{"model":"echo/echo","max_tokens":2,"messages":[{"role":"user","content":"one two"}]}`)
		switch {
		case err == nil && status == http.StatusOK:
			f.admitted.Add(1)
		case err == nil && status == http.StatusTooManyRequests && f.admitted.Load() >= least:
			return nil
		}
		return fmt.Errorf("%d admitted, status %d: %s, %w", f.admitted.Load(), status, body, err)
	})
}

// TestLimitsHoldOverReplicas floods four replicas. The window is an hour, so that all that is admitted is in one.
func TestLimitsHoldOverReplicas(t *testing.T) {
	// All share two cores with 200 clients.
	c := startCluster(t, "--limits-failure", "closed", "--limits-timeout", "5s")
	t.Run("requests", func(t *testing.T) {
		const limit = 1000
		key := c.limitedKey("--rph", strconv.Itoa(limit))
		f := c.flood(key, 15, nil)
		c.exhaust(t, key, f, limit*99/100)
		require.LessOrEqual(t, f.admitted.Load(), int64(limit))
		require.Positive(t, f.refused.Load())
	})
	t.Run("tokens", func(t *testing.T) {
		// Each request is of four tokens in the end, and reserves more: what all at once reserve keeps others out that would
		// have fitted, which ask again.
		const limit, reserved = 4000, 40
		key := c.limitedKey("--limit", "tokens:hour:"+strconv.Itoa(limit))
		f := c.flood(key, 15, nil)
		c.exhaust(t, key, f, (limit-reserved)/4)
		require.LessOrEqual(t, f.admitted.Load()*4, int64(limit))
	})
	t.Run("redis is killed and restarted", func(t *testing.T) {
		const limit = 1000
		key := c.limitedKey("--rph", strconv.Itoa(limit))
		f := c.flood(key, 15, func() {
			for range 2 {
				c.redis.Restart(t)
			}
		})
		// What was counted and whose answer was lost with the server is not used by anybody.
		c.exhaust(t, key, f, limit-2*clients)
		require.LessOrEqual(t, f.admitted.Load(), int64(limit))
	})
}

// TestWithoutRedisReplicasAdmitTheirShare has the store away from the beginning, and the operator fail open.
func TestWithoutRedisReplicasAdmitTheirShare(t *testing.T) {
	c := startCluster(t, "--limits-failure", "open", "--limits-share", "0.25")
	c.redis.Stop()
	const limit = 400
	f := c.flood(c.limitedKey("--rph", strconv.Itoa(limit)), 8, nil)
	require.LessOrEqual(t, f.admitted.Load(), int64(limit))
	require.GreaterOrEqual(t, f.admitted.Load(), int64(limit/2), "traffic goes on")
	require.Zero(t, f.unavailable.Load())
}
