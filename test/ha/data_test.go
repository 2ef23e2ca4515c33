package ha

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/envoy/process"
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
	binary         string // of the supervisor
	bare           atomic.Bool
	taken          int // how often the ext_proc service was replaced
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

// probe is the readiness of Envoy: its supervisor's, or, of the version that had none, its own.
func (d *dataPlane) probe(ctx context.Context) error {
	if !d.bare.Load() {
		return readyz(d.admin)(ctx)
	}
	admin := d.adminOfEnvoy()
	if err := admin.Ready(ctx); err != nil {
		return err
	}
	bound, err := admin.Listeners(ctx)
	if err != nil {
		return err
	}
	for name := range bound {
		if strings.HasPrefix(name, envoy.GatewayListener) {
			return nil
		}
	}
	return errors.New("it does not listen yet")
}

func (d *dataPlane) adminOfEnvoy() *process.Admin {
	return process.NewAdmin(filepath.Join(d.dir, "envoy-admin.sock"))
}

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
	d.extproc = start(t, binary, "extproc", "--listen", "unix://"+filepath.Join(d.dir, "extproc.sock"), "--admin", admin,
		"--node", fmt.Sprint("extproc-", d.i),
		"--spool", spool, "--limits", d.c.redis.URL, "--xds-address", d.c.xds.address, "--grace", grace)
	d.metrics = admin
	harness.Eventually(t, "the ext_proc service is ready", func() error { return readyz(admin)(t.Context()) })
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
	d.binary = binary
	d.bare.Store(isOld(binary))
	common := []string{"--node", fmt.Sprint("envoy-", d.i), "--extproc", "unix://" + filepath.Join(d.dir, "extproc.sock"),
		"--xds-address", d.xds}
	if !isOld(binary) {
		d.envoy = start(t, binary, append([]string{"envoy", "run", "--envoy", testenv.Envoy(t), "--dir", d.dir, "--admin",
			d.admin, "--grace", grace,
			"--concurrency", "1"}, append(common, delay(binary)...)...)...)
	} else {
		text, err := exec.Command(binary, append([]string{"envoy", "bootstrap", "--admin-socket",
			filepath.Join(d.dir, "envoy-admin.sock")}, common...)...).Output()
		require.NoError(t, err)
		path := filepath.Join(d.dir, "old.yaml")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		cmd := exec.Command(testenv.Envoy(t), "-c", path, "--disable-hot-restart", "--concurrency", "1", "--log-level",
			"warning")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		d.envoy = harness.Start(t, cmd)
	}
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

// endEnvoy ends Envoy. Its supervisor drains it; where there is none, this does what an operator's hook has to.
func (d *dataPlane) endEnvoy() {
	t := d.c.t
	if d.bare.Load() {
		d.c.gateway.retire(d.at)
		d.c.internal.retire(d.internal)
		admin := d.adminOfEnvoy()
		require.NoError(t, admin.FailHealthCheck(t.Context()))
		idle := 0
		harness.Eventually(t, "no request is being served", func() error {
			if n, err := admin.ActiveRequests(t.Context()); err != nil || n > 0 {
				idle = 0
				return fmt.Errorf("%d requests, %w", n, err)
			}
			if idle++; idle < 20 {
				return errors.New("just now")
			}
			return nil
		})
	}
	d.envoy.Stop(t)
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

// delay are the flags with which a process serves on while the service learns that it ends.
func delay(binary string) []string {
	if isOld(binary) {
		return nil
	}
	return []string{"--shutdown-delay", "500ms"}
}

// isOld reports whether a binary is of the version before, which leaves more of its end to others.
func isOld(binary string) bool { return strings.Contains(filepath.Base(binary), "-") }
