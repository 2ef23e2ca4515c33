package usage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/internal/usage"
)

func TestAFullDisk(t *testing.T) { testenv.OnDisk(t, "tmpfs", "size=1m", fillDisk) }

// A file system that reserves no room, as ramfs, is written with calls.
func TestADiskThatReservesNothing(t *testing.T) {
	testenv.OnDisk(t, "ramfs", "", func(t *testing.T, dir string) {
		o, k := options(filepath.Join(dir, "spool")), newKeeper()
		s := open(t, o)
		s.Begin(rec("a", 1))
		s.End(rec("b", 2))
		path, data := onlySegment(t, o.Dir)
		require.NotZero(t, data[len(data)-1], "no room is reserved")
		require.NoError(t, s.Close())
		require.FileExists(t, path)
		flush(open(t, o), k)
		require.Equal(t, "interrupted", k.records["a"].GetOutcome())
		require.Equal(t, "finished", k.records["b"].GetOutcome())
	})
}

func fillDisk(t *testing.T, dir string) {
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
	for id, r := range k.records {
		require.Equal(t, "finished", r.GetOutcome(), id)
	}
}

// A file that somebody cuts under the spool, and pages of it that are gone, end no process and cost no later record.
func TestAFileThatIsCutUnderTheSpool(t *testing.T) {
	o, k := options(t.TempDir()), newKeeper()
	s := open(t, o)
	s.End(rec("before", 2))
	path, _ := onlySegment(t, o.Dir)
	require.NoError(t, os.Truncate(path, 0))
	for i := range 100 {
		s.End(rec(fmt.Sprint("r", i), 2))
	}
	flush(s, k)
	require.Equal(t, 100, k.ids())
}

// The room that a segment reserves stays within the bound of the spool, and is given back.
func TestReservedRoomIsWithinTheBound(t *testing.T) {
	o := options(t.TempDir())
	o.MaxBytes = 100_000
	s := open(t, o)
	size := func() (all int64) {
		path, _ := onlySegment(t, o.Dir)
		info, err := os.Stat(path)
		require.NoError(t, err)
		return info.Size()
	}
	used := int64(0)
	for i := range 2000 {
		s.End(rec(fmt.Sprint("r", i), 2))
		used = max(used, size())
	}
	require.Equal(t, o.MaxBytes, used)
	require.NoError(t, s.Close())
	_, data := onlySegment(t, o.Dir)
	require.Less(t, size(), used, "what no record needed")
	require.NotZero(t, data[len(data)-1])
}

// What a process that was killed had reserved and not written is no damage.
func TestRoomThatWasReservedIsNoDamage(t *testing.T) {
	o := options(t.TempDir())
	s := open(t, o)
	s.Begin(rec("a", 1))
	s.End(rec("b", 2))
	path, data := onlySegment(t, o.Dir) // as it is there while the process runs
	require.Zero(t, data[len(data)-1])
	require.NoError(t, s.Close())
	require.NoError(t, os.WriteFile(path, data, 0o600))
	core, logged := observer.New(zap.WarnLevel)
	o.Log = zap.New(core)
	k := newKeeper()
	s = open(t, o)
	flush(s, k)
	require.Empty(t, logged.All())
	require.Equal(t, 2, k.ids())
	select {
	case <-s.Replayed():
	default:
		t.Fatal("all of it is acknowledged")
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
