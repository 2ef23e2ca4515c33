package ha

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// grace is for how long the parts let end what they serve. No answer of the vendor's takes as long.
const grace = "40s"

// A dataPlane is an Envoy and the ext_proc service beside it, as in one pod.
type dataPlane struct {
	c            *cluster
	i            int
	dir          string
	xds          string // for Envoy
	admin        string // of Envoy's supervisor
	at, internal *endpoint

	extproc, envoy *harness.Process
	metrics        string // address of the ext_proc service's
	taken          int    // how often the ext_proc service was replaced
}

func (c *cluster) placeData(i, port int) *dataPlane {
	d := &dataPlane{c: c, i: i, dir: filepath.Join(c.dir, fmt.Sprint("data-", i)), admin: loopback(c.t)}
	require.NoError(c.t, os.Mkdir(d.dir, 0o700))
	ip, suffix := fmt.Sprint("127.0.0.", 2+i), fmt.Sprint(".", i)
	d.xds = newAddressing(c.t, c.xds.address, ip, suffix)
	d.at = &endpoint{address: fmt.Sprintf("%s:%d", ip, port), probe: d.probe}
	d.internal = &endpoint{address: c.socket("internal.sock" + suffix), probe: d.probe}
	return d
}

// probe is the readiness that Envoy's supervisor tells.
func (d *dataPlane) probe(ctx context.Context) error { return readyz(d.admin)(ctx) }

func (d *dataPlane) start(binary string) {
	d.startExtProc(binary)
	d.startEnvoy(binary)
}

// startExtProc starts the ext_proc service, which takes the socket's path, and waits until it can serve. One that runs
// goes on with what it has.
func (d *dataPlane) startExtProc(binary string) {
	t := d.c.t
	admin := loopback(t)
	spool := filepath.Join(d.dir, fmt.Sprint("spool-", d.taken%2)) // the one before may still use its own
	d.taken++
	d.extproc = start(t, binary, append([]string{"extproc", "--listen", "unix://" + filepath.Join(d.dir, "extproc.sock"),
		"--admin", admin, "--node", fmt.Sprint("extproc-", d.i), "--spool", spool, "--xds-address", d.c.xds.address,
		"--grace", grace}, d.c.limits()...)...)
	d.metrics = admin
	harness.Eventually(t, "the ext_proc service is ready", func() error { return readyz(admin)(t.Context()) })
}

// limits are the flags that say where requests are counted.
func (c *cluster) limits() []string {
	if c.redis == nil {
		return []string{"--limits-part", "0.5", "--limits-one-ledger"}
	}
	return []string{"--limits", c.redis.URL}
}

// takeOver has a new ext_proc service take the place of the one that runs, beside the Envoy that goes on.
func (d *dataPlane) takeOver(binary string) {
	before := d.extproc
	d.startExtProc(binary)
	began := time.Now()
	before.Stop(d.c.t)
	require.Less(d.c.t, time.Since(began), 20*time.Second, "it ends with its last request")
}

func (d *dataPlane) startEnvoy(binary string) {
	t := d.c.t
	d.envoy = start(t, binary, "envoy", "run", "--envoy", testenv.Envoy(t), "--dir", d.dir, "--admin", d.admin, "--grace",
		grace, "--concurrency", "1", "--node", fmt.Sprint("envoy-", d.i), "--extproc",
		"unix://"+filepath.Join(d.dir, "extproc.sock"), "--xds-address", d.xds, "--shutdown-delay", shutdownDelay)
	harness.Eventually(t, "Envoy is ready", func() error {
		if d.envoy.Ended() {
			t.Fatalf("it has ended: %s", d.envoy.Output())
		}
		if !d.c.gateway.isReady(d.at) || !d.c.internal.isReady(d.internal) {
			return errors.New("no service sends anybody there")
		}
		return nil
	})
}

// replaceEnvoy drains Envoy and ends it, and starts another.
func (d *dataPlane) replaceEnvoy(binary string) {
	d.endEnvoy()
	d.startEnvoy(binary)
}

// endEnvoy ends Envoy, which its supervisor drains.
func (d *dataPlane) endEnvoy() {
	d.envoy.Stop(d.c.t)
	d.c.gateway.unretire(d.at)
	d.c.internal.unretire(d.internal)
}

// replace replaces both, as a new pod does.
func (d *dataPlane) replace(binary string) {
	d.endEnvoy()
	d.extproc.Stop(d.c.t)
	d.start(binary)
}

// start starts a binary.
func start(t testing.TB, binary string, args ...string) *harness.Process {
	cmd := exec.Command(binary, args...)
	cmd.Env = harness.CleanEnv()
	return harness.Start(t, cmd)
}

// shutdownDelay is for how long a process serves on while the service learns that it ends.
const shutdownDelay = "500ms"
