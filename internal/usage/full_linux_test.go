package usage_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/internal/usage"
)

// smallDisk is where the child process mounts a file system of 1 MB.
const smallDisk = "MODELGATE_TEST_SPOOL_DISK"

func TestAFullDisk(t *testing.T) {
	if dir := os.Getenv(smallDisk); dir != "" {
		fillDisk(t, dir)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), smallDisk+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if _, ran := errors.AsType[*exec.ExitError](err); err != nil && !ran {
		testenv.Missing(t, "a mount namespace, for a small disk: "+err.Error(), "")
	}
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}

func fillDisk(t *testing.T, dir string) {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		testenv.Missing(t, "the right to mount a small disk: "+err.Error(), "")
	}
	registry := prometheus.NewRegistry()
	o := usage.SpoolOptions{Dir: filepath.Join(dir, "spool"), Log: zap.NewNop(), Registerer: registry}
	s := open(t, o)
	n := 0
	add := func(count int) {
		for range count {
			s.Begin(rec(fmt.Sprint("r", n), 1))
			s.End(rec(fmt.Sprint("r", n), 2))
			n++
		}
	}
	add(100)
	other := filepath.Join(dir, "other")
	fill(t, other)
	add(3000) // some 400 kB, which the disk does not have
	// Traffic goes on, and what does not fit is kept for when there is room.
	require.NoError(t, os.Remove(other))
	require.Eventually(t, func() bool {
		waiting, err := testutil.GatherAndCount(registry, "modelgate_ledger_waiting_bytes")
		require.NoError(t, err)
		return waiting == 1 && gauge(t, registry, "modelgate_ledger_waiting_bytes") == 0
	}, 10*time.Second, 20*time.Millisecond)
	fill(t, other)
	add(3000)
	k := newKeeper()
	flush(s, k) // which makes room
	require.NoError(t, os.Remove(other))
	require.NoError(t, s.Close())
	o.Registerer = nil
	flush(open(t, o), k)
	require.Equal(t, n, k.ids())
	for id, r := range k.kept {
		require.Equal(t, "finished", r.GetOutcome(), id)
	}
}

// fill takes all room that there is.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 997))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())
}

func gauge(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}
