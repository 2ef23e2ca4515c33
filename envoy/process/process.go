package process

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

const (
	pollEvery    = 20 * time.Millisecond // how often Envoy is polled for states that it does not report
	askTimeout   = 2 * time.Second       // for one question to the admin interface
	termTimeout  = 5 * time.Second       // from SIGTERM to SIGKILL
	firstBackOff = 250 * time.Millisecond
	lastBackOff  = 10 * time.Second
	// drainTime is how long Envoy lets streams of a replaced listener run.
	drainTime = 10 * time.Minute
)

// Options says which Envoy runs, and how.
type Options struct {
	Binary      string // as Find returned it
	Config      string // path of the bootstrap file
	AdminSocket string // as it is in the bootstrap
	Concurrency int    // worker threads; 0: one for each core
	// Log gets Envoy's lines and what happens to the process.
	Log *zap.Logger
	// Restarted is called each time Envoy was started again and its admin interface answers, from a goroutine of the
	// Process. It must return soon after ctx ends, which it does when the Process is stopped. Nil: it is not called.
	Restarted func(ctx context.Context)
}

// A Process is an Envoy that is kept running until it is stopped. It is safe for concurrent use.
type Process struct {
	options Options
	admin   *Admin
	log     *logWriter
	first   chan error    // gets the end of the first child
	ended   chan struct{} // closed when the last child and the goroutines are gone
	stop    context.CancelFunc

	telling sync.Mutex // held while Envoy gets one of the following commands, so that the last one wins

	mu                sync.Mutex // guards what follows
	child             *os.Process
	retired, diverted bool // a child that is started from now on gets these commands too
}

// Start starts Envoy and returns when its admin interface answers. An Envoy that ends before that is an error, which
// says what it said; one that ends later is logged and started again.
func Start(ctx context.Context, o Options) (*Process, error) {
	if err := raiseFileLimit(); err != nil {
		return nil, err
	}
	p := &Process{
		options: o,
		admin:   NewAdmin(o.AdminSocket),
		log:     &logWriter{log: o.Log},
		first:   make(chan error, 1),
		ended:   make(chan struct{}),
	}
	// Envoy ends by Stop, which drains it, and not with the context of its start.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	go p.supervise(running)
	if err := p.awaitAdmin(ctx); err != nil {
		p.stop()
		p.signal(syscall.SIGKILL)
		<-p.ended
		return nil, err
	}
	return p, nil
}

// Admin returns the client of this Envoy's admin interface.
func (p *Process) Admin() *Admin { return p.admin }

// Pid returns the process id of the present child, or 0.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil {
		return 0
	}
	return p.child.Pid
}

// AwaitListener waits until Envoy takes requests and the listener of that name is bound, and returns its address.
func (p *Process) AwaitListener(ctx context.Context, name string) (netip.AddrPort, error) {
	var bound netip.AddrPort
	last := errors.New("it was not asked")
	err := poll(ctx, func() bool {
		if last = p.admin.Ready(ctx); last != nil {
			return false
		}
		var all map[string]netip.AddrPort
		if all, last = p.admin.Listeners(ctx); last != nil {
			return false
		}
		bound = all[name]
		last = fmt.Errorf("there is no listener %q", name)
		return bound.Port() != 0
	})
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("waiting for Envoy to listen: %w: %w", err, last)
	}
	return bound, nil
}

func (p *Process) awaitAdmin(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-p.first:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	if err := poll(ctx, func() bool { return p.adminAnswers(ctx) }); err != nil {
		return fmt.Errorf("starting Envoy: %w", context.Cause(ctx))
	}
	return nil
}

func (p *Process) adminAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := p.admin.Listeners(ctx)
	return err == nil
}

// supervise runs one child after the other until ctx ends, and returns when the last one is gone.
func (p *Process) supervise(ctx context.Context) {
	defer close(p.ended)
	// Linux ends a child with the thread that started it, so the thread has to stay.
	runtime.LockOSThread()
	wait := firstBackOff
	for count := 0; ; count++ {
		began := time.Now()
		err := p.run(ctx, count > 0)
		if ctx.Err() != nil {
			return
		}
		if count == 0 {
			p.first <- err
		}
		if time.Since(began) > time.Minute {
			wait = firstBackOff
		}
		p.options.Log.Error("envoy ended unexpectedly and is started again", zap.Error(err), zap.Duration("wait", wait))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = min(2*wait, lastBackOff)
	}
}

// run starts one child and returns why it ended.
func (p *Process) run(ctx context.Context, again bool) error {
	cmd := p.command()
	if err := p.launch(ctx, cmd); err != nil {
		return err
	}
	watched := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(watched)
		if again && poll(ctx, func() bool { return p.adminAnswers(ctx) }) == nil {
			p.cameBack(ctx)
		}
	}()
	err := cmd.Wait()
	cancel()
	<-watched
	failure := p.log.Flush()
	p.mu.Lock()
	p.child = nil
	p.mu.Unlock()
	switch {
	case err == nil:
		err = errors.New("it ended by itself")
	case failure != "":
		err = fmt.Errorf("%w: %s", err, failure)
	}
	return err
}

// cameBack repeats the commands of the former child to a restarted one, and says that there is one.
func (p *Process) cameBack(ctx context.Context) {
	p.mu.Lock()
	ends := p.retired || p.diverted
	p.mu.Unlock()
	if ends {
		if err := p.tell(ctx); err != nil {
			p.options.Log.Warn("envoy could not be told to end its connections", zap.Error(err))
		}
	}
	if p.options.Restarted != nil {
		p.options.Restarted(ctx)
	}
}

// launch starts the child, unless the Process was stopped: after Stop has taken the lock, no further child appears.
func (p *Process) launch(ctx context.Context, cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	p.child = cmd.Process
	p.options.Log.Info("envoy started", zap.String("binary", cmd.Path), zap.Int("pid", cmd.Process.Pid))
	return nil
}

func (p *Process) command() *exec.Cmd {
	args := []string{
		"--config-path", p.options.Config,
		"--disable-hot-restart",
		"--drain-time-s", strconv.Itoa(int(drainTime.Seconds())),
		"--log-level", "info", // below it, Envoy logs headers
		"--log-format", logFormat,
	}
	if p.options.Concurrency > 0 {
		args = append(args, "--concurrency", strconv.Itoa(p.options.Concurrency))
	}
	cmd := exec.Command(p.options.Binary, args...)
	// Credentials of providers are variables of ours, and Envoy needs none of any kind. Empty is not nil, which would be
	// all of ours.
	cmd.Env = []string{}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = childAttributes()
	return cmd
}

// poll calls done, at once and then at every tick, until it returns true or ctx ends.
func poll(ctx context.Context, done func() bool) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
