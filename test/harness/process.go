package harness

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shown is how many of the last lines of a process are shown where a test fails.
const shown = 300

// A Process is one that a test has started. It is killed with the test, and what it has printed is shown where the
// test fails.
type Process struct {
	// Done is closed when it has ended. Err is valid then.
	Done chan struct{}
	Err  error

	cmd   *exec.Cmd
	mu    sync.Mutex // guards what follows
	lines []string
	seen  *sync.Cond
	ended bool // nothing more will be printed, or waited for
}

// Launch starts the gateway's binary with further environment.
func Launch(t testing.TB, env []string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(Binary(t), args...)
	cmd.Env = append(CleanEnv(), env...)
	return Start(t, cmd)
}

// Start starts a command, in a group of its own.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, Done: make(chan struct{})}
	p.seen = sync.NewCond(&p.mu)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = w, w
	require.NoError(t, cmd.Start())
	_ = w.Close()
	go p.read(r)
	go func() {
		p.Err = cmd.Wait()
		close(p.Done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			lines := p.Lines()
			t.Logf("%s printed:\n%s", strings.Join(cmd.Args, " "), strings.Join(lines[max(0, len(lines)-shown):], "\n"))
		}
	})
	return p
}

func (p *Process) read(r io.ReadCloser) {
	defer func() { _ = r.Close() }()
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, scanner.Text())
		p.seen.Broadcast()
		p.mu.Unlock()
	}
	p.end()
}

func (p *Process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.seen.Broadcast()
}

// PID is the process's id, which is that of its group, too.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Lines returns what it has printed so far. The caller must not change them.
func (p *Process) Lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines[:len(p.lines):len(p.lines)]
}

// Output returns what it has printed so far.
func (p *Process) Output() string { return strings.Join(p.Lines(), "\n") }

// WaitFor waits until the process has printed a line with the text, and returns it.
func (p *Process) WaitFor(t testing.TB, text string) string {
	t.Helper()
	deadline := time.AfterFunc(patience, p.end)
	defer deadline.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for from := 0; ; {
		for ; from < len(p.lines); from++ {
			if strings.Contains(p.lines[from], text) {
				return p.lines[from]
			}
		}
		if p.ended {
			t.Fatalf("never printed %q", text)
		}
		p.seen.Wait()
	}
}

// Stop sends SIGTERM and waits for the end.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.Done:
	case <-time.After(patience):
		t.Fatal("did not stop")
	}
}

// Kill ends the process, and what it started, at once.
func (p *Process) Kill() {
	if !p.Ended() {
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
		<-p.Done
	}
}

// Ended reports whether it has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}
