package hostile

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// What a start prints in the order of its steps. The moments in between are those of the times below.
func moments() []string {
	return []string{"memory is limited", "serving xDS", "configuration received", "envoy started", "Sign in", "ready"}
}

// stopsWithin is how long a start that is told to end may take, with room for a busy machine.
const stopsWithin = 10 * time.Second

// SIGTERM ends a start at any moment, soon and without an error, and what it leaves starts again.
func TestPoint6SIGTERMIsObeyedAtAnyMoment(t *testing.T) {
	t.Parallel()
	dir := shortFolder(t)
	var slowest time.Duration
	stop := func(p *harness.Process, when string) {
		t.Helper()
		began := time.Now()
		p.Stop(t)
		took := time.Since(began)
		require.NoError(t, p.Err, when)
		require.Less(t, took, stopsWithin, when)
		slowest = max(slowest, took)
	}
	launch := func() *harness.Process {
		return harness.Launch(t, nil, "run", "--data", dir, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
			"--concurrency", "1", "--envoy", testenv.Envoy(t))
	}
	for _, line := range moments() {
		p := launch()
		p.WaitFor(t, line)
		stop(p, "after "+line)
	}
	for after := 50 * time.Millisecond; after < 700*time.Millisecond; after += 170 * time.Millisecond {
		p := launch()
		p.WaitFor(t, "memory is limited") // from here on it hears signals
		<-time.After(after)
		stop(p, after.String())
	}
	launch().WaitFor(t, "ready")
	figure(t, "the slowest end of a start", "%.2f s", slowest.Seconds())
}

// An address that another process has, and an Envoy that is missing, are found before anything else runs.
func TestPoint6WhatAnotherHasIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() }) // nothing was accepted
	absent := filepath.Join(t.TempDir(), "envoy")
	for name, tc := range map[string]struct{ listen, admin, envoy, says string }{
		"the gateway's address": {taken.Addr().String(), "127.0.0.1:0", testenv.Envoy(t), "--listen"},
		"the admin address":     {"127.0.0.1:0", taken.Addr().String(), testenv.Envoy(t), "--admin"},
		"no Envoy":              {"127.0.0.1:0", "127.0.0.1:0", absent, absent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := harness.Launch(t, nil, "run", "--data", shortFolder(t), "--listen", tc.listen, "--admin", tc.admin, "--envoy",
				tc.envoy)
			select {
			case <-p.Done:
			case <-time.After(stopsWithin):
				t.Fatal("it is not refused")
			}
			require.Error(t, p.Err)
			require.Contains(t, p.WaitFor(t, "modelgate: "), tc.says)
		})
	}
}
