package memlimit

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	const (
		meminfo = "MemTotal:        8388608 kB\nMemFree:         1 kB\n"
		machine = 8 << 30
		gb      = "1073741824\n"
		none    = "9223372036854771712\n" // of version 1, without a limit
	)
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing is known": {map[string]string{}, 0},
		"only the machine": {map[string]string{"proc/meminfo": meminfo}, machine},
		"version 2": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": gb}, 1 << 30},
		"one above": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": gb}, 1 << 30},
		"in a container": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": gb}, 1 << 30},
		"no limit": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "max\n"}, machine},
		"more than there is": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "99999999999999\n"}, machine},
		"version 1": {map[string]string{"proc/meminfo": meminfo,
			"proc/self/cgroup": "5:cpu:/\n4:memory:/docker/x\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": gb}, 1 << 30},
		"version 1, none": {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": none}, machine},
		"both versions": {map[string]string{"proc/self/cgroup": "4:cpu,memory:/\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": gb}, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for file, text := range c.files {
				root[file] = &fstest.MapFile{Data: []byte(text)}
			}
			require.Equal(t, c.want, find(root))
		})
	}
}

func TestShedding(t *testing.T) {
	inUse, live, collections := int64(0), int64(0), 0
	w := New(1000)
	w.used = func() int64 { return inUse }
	w.collect = func() { inUse = live; collections++ }
	state := func(use, alive int64, may bool) bool {
		inUse, live = use, alive
		w.look(may)
		return w.Shedding()
	}
	require.False(t, state(890, 890, true))
	require.Zero(t, collections, "nothing is collected while there is room")
	require.False(t, state(950, 100, true), "garbage does not count")
	require.False(t, state(950, 950, false), "and is not collected again and again")
	require.Empty(t, warning(w))
	require.True(t, state(950, 901, true))
	require.Equal(t, "now: more than 80 % of the memory limit of 0 MB is in use, and nothing new is begun", warning(w))
	require.True(t, state(900, 850, true), "it does not flap")
	require.True(t, state(900, 100, false))
	require.False(t, state(900, 100, true))
	require.Contains(t, warning(w), "nothing new was begun 0s ago")
	w.shed.Add(-int64(Recently))
	require.Empty(t, warning(w), "it is long ago")
	require.Empty(t, warning(nil))
	require.Positive(t, used())
	require.False(t, (*Watch)(nil).Shedding())
}

func warning(w *Watch) string {
	text, now := w.Warning()
	if now {
		return "now: " + text
	}
	return text
}
