// Package redistest runs a real Redis in a test.
//
// A server that was stopped comes back empty, unless it is configured to persist.
package redistest

import (
	"bufio"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
)

const startTimeout = 30 * time.Second

// A Server is a redis-server on loopback. Its methods must not be called at the same time.
type Server struct {
	// URL is where it is, or was before it was stopped: redis://127.0.0.1:PORT.
	URL string

	args    []string
	process *exec.Cmd // nil while it is stopped
}

// Persistent are arguments for a server that loses nothing when it is killed.
func Persistent() []string { return []string{"--appendonly", "yes", "--appendfsync", "always"} }

// Start runs a server until the test ends, with more arguments for it, such as Persistent's. Without a redis-server
// the test is skipped.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		testenv.Missing(t, "redis-server", "tools/services/install.sh")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	_, port, _ := strings.Cut(address, ":")
	s := &Server{URL: "redis://" + address}
	s.args = append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", "", "--daemonize",
		"no"}, args...)
	s.Restart(t)
	t.Cleanup(s.Stop)
	return s
}

// Restart starts a server, which is stopped before if it runs, and returns when it answers.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop()
	s.process = exec.Command("redis-server", s.args...)
	require.NoError(t, s.process.Start(), "start redis-server")
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(startTimeout); !s.answers(); <-tick.C {
		require.True(t, time.Now().Before(deadline), "redis-server was not ready in time")
	}
}

func (s *Server) answers() bool {
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(s.URL, "redis://"), time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && strings.HasPrefix(line, "+PONG")
}

// Stop kills the server as a crash does. Stopping twice is harmless.
func (s *Server) Stop() {
	if s.process != nil {
		_ = s.process.Process.Kill() // it may be gone already
		_ = s.process.Wait()         // reports the kill
		s.process = nil
	}
}

// Pause makes the server hang, with its connections open, until Resume.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	require.NotNil(t, s.process, "the server is stopped")
	testenv.Pause(t, s.process.Process.Pid)
}

// Resume ends a Pause.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	require.NotNil(t, s.process, "the server is stopped")
	require.NoError(t, s.process.Process.Signal(syscall.SIGCONT))
}
