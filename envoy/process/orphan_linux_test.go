package process_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEnvoyDoesNotOutliveItsParent(t *testing.T) {
	o, _ := options(t, http.NotFoundHandler())
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(),
		parentOf+"="+o.Binary, "TEST_PARENT_CONFIG="+o.Config, "TEST_PARENT_SOCKET="+o.AdminSocket)
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "pid ")))
	require.NoError(t, err)
	require.True(t, running(pid))

	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
	require.Eventually(t, func() bool { return !running(pid) }, 10*time.Second, 10*time.Millisecond)
}

// running reports whether the process is there and more than an entry that its new parent has not collected.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(status), ") Z ")
}
