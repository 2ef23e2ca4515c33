package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// results holds the outcomes of each pass, by scenario and target.
type results map[string]map[string][]*outcome

func (r results) add(scenario, target string, o *outcome) {
	if r[scenario] == nil {
		r[scenario] = make(map[string][]*outcome)
	}
	r[scenario][target] = append(r[scenario][target], o)
}

// A bench is one run.
type bench struct {
	options  options
	dir      string
	mock     *mock
	started  int // targets so far, each of which has a folder of its own
	progress *log.Logger
	peers    []peer
	results  results
}

// targets are those that a scenario is measured on. Limits cost something for each request, so only those of requests
// need the gateway that has them. Peers would take too long to start for each pass.
func (b *bench) targets(fresh bool) []string {
	all := []string{targetEnvoy, targetFloor, targetProxy}
	if !fresh {
		all = append(all, targetDirect)
	}
	if b.options.modelgate != "" {
		all = append(all, targetGateway)
	}
	if b.options.modelgate != "" && !fresh {
		all = append(all, targetGoverned)
	}
	for _, p := range b.peers {
		if p.absent == "" && !fresh {
			all = append(all, p.target)
		}
	}
	return all
}

// run measures every scenario on all targets in turn, pass by pass, so that what changes on the machine meanwhile
// touches all of them.
func (b *bench) run(ctx context.Context, all []scenario) error {
	var shared []scenario
	for _, s := range all {
		switch {
		case s.fresh:
			if err := b.afresh(ctx, s); err != nil {
				return err
			}
		default:
			shared = append(shared, s)
		}
	}
	if len(shared) == 0 {
		return nil
	}
	return b.with(ctx, b.targets(false), func(running []*target) error { return b.inTurn(ctx, shared, running) })
}

// afresh measures a scenario on targets that are started anew for each pass.
func (b *bench) afresh(ctx context.Context, s scenario) error {
	for pass := range s.passes {
		for _, name := range b.targets(true) {
			err := b.with(ctx, []string{name}, func(running []*target) error { return b.measure(ctx, s, pass, running[0]) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// inTurn measures scenarios pass by pass on targets that run.
func (b *bench) inTurn(ctx context.Context, all []scenario, running []*target) error {
	for _, s := range all {
		for pass := range s.passes {
			for _, t := range running {
				if !s.suits(t) {
					continue
				}
				if err := b.measure(ctx, s, pass, t); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// with starts targets, calls do, and stops them. A peer that does not start is left out.
func (b *bench) with(ctx context.Context, names []string, do func([]*target) error) (err error) {
	if err := setProfile(ctx, b.mock.address, profile{Interval: time.Second}); err != nil {
		return err
	}
	var running []*target
	for _, name := range names {
		b.started++
		dir := filepath.Join(b.dir, fmt.Sprint(b.started))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		t, err := startTarget(ctx, name, b.options, dir, b.mock.address)
		if err != nil && ctx.Err() == nil && b.leaveOut(name, err) {
			continue
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.stop()) }()
		running = append(running, t)
	}
	return do(running)
}

// leaveOut notes why a peer is not measured, and tells whether the target is a peer.
func (b *bench) leaveOut(name string, why error) bool {
	i := slices.IndexFunc(b.peers, func(p peer) bool { return p.target == name })
	if i < 0 {
		return false
	}
	b.peers[i].absent, _, _ = strings.Cut(why.Error(), "\n") // what follows is its log
	b.progress.Printf("%s is not measured: %v", name, why)
	return true
}

// measure has the load generator do one pass of a scenario on a target.
func (b *bench) measure(ctx context.Context, s scenario, pass int, t *target) error {
	fail := func(err error) error { return fmt.Errorf("%s, %s: %w", s.name, t.name, err) }
	if err := setProfile(ctx, b.mock.address, s.answer); err != nil {
		return fail(err)
	}
	j := s.job
	if j.Model = t.job.Model; s.translated {
		j.Model = t.translated
	}
	j.URL, j.CA, j.Key, j.Head, j.PID, j.Root = t.job.URL, t.job.CA, t.job.Key, t.job.Head, t.job.PID, t.job.Root
	j.MockAddress, j.MockPID = b.mock.address, b.mock.cmd.Process.Pid
	o, err := runLoad(ctx, j)
	if err != nil {
		return fail(err)
	}
	if o.OK == 0 {
		return fail(fmt.Errorf("nothing was answered: %s", o.FirstError))
	}
	b.results.add(s.name, t.name, o)
	b.progress.Printf("%-38s pass %d of %d  %-12s %6d ok, %d failed, %3.0f %% of the machine's CPU taken by others",
		s.name, pass+1, s.passes, t.name, o.OK, o.failed(), 100*o.Others)
	if o.FirstError != "" {
		b.progress.Printf("  the first failure: %s", o.FirstError)
	}
	return nil
}

// runLoad runs the load generator in a process of its own.
func runLoad(ctx context.Context, j job) (*outcome, error) {
	in, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	cmd, err := self(ctx, roleLoad)
	if err != nil {
		return nil, err
	}
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the load generator: %w", err)
	}
	var o outcome
	if err := json.Unmarshal(out, &o); err != nil {
		return nil, fmt.Errorf("reading the outcome: %w", err)
	}
	return &o, nil
}

// A mock is the mock provider's process.
type mock struct {
	address string
	cmd     *exec.Cmd
	stdin   io.Closer
}

func startMock(ctx context.Context) (*mock, error) {
	cmd, err := self(ctx, roleMock)
	if err != nil {
		return nil, err
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the mock: %w", err)
	}
	m := &mock{cmd: cmd, stdin: stdin}
	line := make([]byte, 64)
	n, err := stdout.Read(line)
	if err != nil {
		m.stop()
		return nil, fmt.Errorf("starting the mock: %w", err)
	}
	m.address = strings.TrimSpace(string(line[:n]))
	return m, nil
}

func (m *mock) stop() {
	m.stdin.Close()
	_ = m.cmd.Wait() // it has nothing left to say
}

// setProfile ends the streams of the mock at the address and sets how it answers from now on.
func setProfile(ctx context.Context, address string, p profile) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+address+"/profile", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("telling the mock how to answer: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("telling the mock how to answer: %s", response.Status)
	}
	return nil
}

// self returns a command that runs this binary in another role.
func self(ctx context.Context, role string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, role)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// output returns what a command prints, in one line.
func output(ctx context.Context, path string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, path, args...).Output()
	if err != nil {
		return "", fmt.Errorf("running %s: %w", filepath.Base(path), err)
	}
	return strings.TrimSpace(string(out)), nil
}
