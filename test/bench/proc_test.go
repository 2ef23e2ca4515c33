package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
)

func TestParseStat(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want stat
	}{
		"plain": {"12 (envoy) S 7 12 12 0 -1 4194560 100 0 0 0 250 50 9 9 20 0 11 0 500 1 2", stat{"envoy", 7, 3}},
		"a name with spaces and brackets": {
			"12 (a) b (c) R 1 12 12 0 -1 4194560 100 0 0 0 1 2 9 9 20 0 11 0 500 1 2", stat{"a) b (c", 1, 0.03}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(c.text)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	for _, text := range []string{"", "12 envoy S 1", "12 (envoy) S 1 2 3", "12 (e) S x 1 1 0 -1 1 1 0 0 0 1 2 9"} {
		_, err := parseStat(text)
		require.Error(t, err, "%q", text)
	}
}

// fakeProc writes processes as the kernel shows them.
func fakeProc(t *testing.T, processes map[int]stat, pages int) procfs {
	t.Helper()
	root := t.TempDir()
	for pid, s := range processes {
		dir := filepath.Join(root, strconv.Itoa(pid))
		require.NoError(t, os.Mkdir(dir, 0o700))
		ticks := strconv.Itoa(int(s.seconds * ticksPerSecond))
		text := strconv.Itoa(pid) + " (" + s.name + ") S " + strconv.Itoa(s.parent) + " 1 1 0 -1 1 1 0 0 0 " + ticks +
			" 0 0 0 20"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "stat"), []byte(text), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "statm"), []byte("9999 "+strconv.Itoa(pages)+" 5 1 0 1 0\n"),
			0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "stat"), []byte("cpu  100 10 50 900 90 5 5 20 60 6\ncpu0 1\n"),
		0o600))
	return procfs(root)
}

func TestTreeHoldsDescendantsOnly(t *testing.T) {
	fs := fakeProc(t, map[int]stat{
		1: {"init", 0, 5}, 10: {"modelgate", 1, 2}, 11: {"envoy", 10, 3}, 12: {"helper", 11, 1}, 20: {"other", 1, 9},
	}, 256)
	tree, err := fs.tree(10)
	require.NoError(t, err)
	require.Equal(t, map[int]stat{10: {"modelgate", 1, 2}, 11: {"envoy", 10, 3}, 12: {"helper", 11, 1}}, tree)

	memory, err := fs.memory(10)
	require.NoError(t, err)
	kb := float64(256 * os.Getpagesize() / 1024)
	require.Equal(t, map[int]float64{10: kb, 11: kb, 12: kb}, memory)

	gateway := meter{proc: fs, target: 10, root: partGo}
	parts, err := gateway.memory()
	require.NoError(t, err)
	require.Equal(t, map[part]float64{partGo: kb, partEnvoy: 2 * kb}, parts)
	parts, err = meter{proc: fs, target: 11, root: partEnvoy}.memory()
	require.NoError(t, err)
	require.Equal(t, map[part]float64{partEnvoy: 2 * kb}, parts)

	_, err = fs.tree(99)
	require.ErrorContains(t, err, "process 99 has ended")
}

func TestCPUBetweenTwoReadings(t *testing.T) {
	before := map[int]stat{1: {"modelgate", 0, 1}, 2: {"envoy", 1, 10}}
	used, err := cpuBetween(before, map[int]stat{1: {"modelgate", 0, 1.5}, 2: {"envoy", 1, 12}, 3: {"new", 1, 0.25}})
	require.NoError(t, err)
	require.Equal(t, map[int]float64{1: 0.5, 2: 2, 3: 0.25}, used)

	_, err = cpuBetween(before, map[int]stat{1: {"modelgate", 0, 1.5}, 3: {"new", 1, 0.25}})
	require.EqualError(t, err, "process 2 (envoy) has ended")
}

func TestBusyLeavesOutIdleTimeAndCountsGuestsOnce(t *testing.T) {
	busy, err := fakeProc(t, nil, 0).busy()
	require.NoError(t, err)
	require.InDelta(t, 1.9, busy, 1e-9) // user 100, nice 10, system 50, irq 5, softirq 5, steal 20

	for _, text := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8 9", "cpu 1 2 x 4 5 6 7 8 9"} {
		_, err := parseBusy(text)
		require.Error(t, err, "%q", text)
	}
}

func TestTheKernelsOwnFilesCanBeRead(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		testenv.Missing(t, "Linux", "")
	}
	tree, err := procfs("/proc").tree(os.Getpid())
	require.NoError(t, err)
	require.Equal(t, os.Getppid(), tree[os.Getpid()].parent)
	memory, err := procfs("/proc").memory(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, memory[os.Getpid()])
	_, err = procfs("/proc").busy()
	require.NoError(t, err)
}
