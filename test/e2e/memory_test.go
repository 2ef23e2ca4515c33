package e2e

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// memory returns the resident memory in bytes of a process and its children (Linux's /proc).
func memory(t *testing.T, pid int) int64 {
	t.Helper()
	total := int64(0)
	statuses, err := filepath.Glob("/proc/[0-9]*/status")
	require.NoError(t, err)
	for _, path := range statuses {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended since
		}
		fields := map[string]string{}
		for line := range strings.SplitSeq(string(text), "\n") {
			name, value, _ := strings.Cut(line, ":")
			fields[name] = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB"))
		}
		if fields["Pid"] == strconv.Itoa(pid) || fields["PPid"] == strconv.Itoa(pid) {
			kB, _ := strconv.ParseInt(fields["VmRSS"], 10, 64)
			total += kB << 10
		}
	}
	require.NotZero(t, total)
	return total
}

// countDials counts the connections that a dialer makes.
func countDials(n *atomic.Int64, dial func(context.Context, string, string) (net.Conn, error)) func(context.Context,
	string, string) (net.Conn, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		n.Add(1)
		return dial(ctx, network, address)
	}
}
