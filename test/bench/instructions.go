package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// whatInstructions is what -what names to have instructions counted instead of time.
const whatInstructions = "instructions"

// How many requests are asked one after the other on one connection: first those that fill caches, and then those that
// are counted.
const (
	uncounted = 100
	counted   = 400
)

// A callgrind runs Envoys under valgrind, which counts their instructions. Two runs differ by less than 1 %, however
// busy the machine is.
type callgrind struct {
	control string // the command that has it write what it has counted
	binary  string // runs Envoy
	counts  string // the file that it writes, without the number
}

// newCallgrind makes a program in a folder that runs Envoy under valgrind.
func newCallgrind(envoy, dir string) (*callgrind, error) {
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		return nil, fmt.Errorf("instructions are counted by valgrind: %w", err)
	}
	c := &callgrind{binary: filepath.Join(dir, "envoy"), counts: filepath.Join(dir, "counts")}
	if c.control, err = exec.LookPath("callgrind_control"); err != nil {
		return nil, err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec %q --tool=callgrind --callgrind-out-file=%q %q \"$@\"\n", valgrind, c.counts,
		envoy)
	return c, os.WriteFile(c.binary, []byte(script), 0o700)
}

// count returns how many instructions Envoy took for each request.
func (c *callgrind) count(ctx context.Context, t *target) (int64, error) {
	at, err := newEndpoint(&t.job)
	if err != nil {
		return 0, err
	}
	body, err := requestBody(t.job.Model, 200, false)
	if err != nil {
		return 0, err
	}
	asker := &client{at: at}
	defer asker.close()
	pid, err := c.pid(t.job.PID)
	if err != nil {
		return 0, err
	}
	var all int64
	for _, n := range []int{uncounted, counted} {
		for range n {
			if err := asker.ask(body, requestTimeout, discard); err != nil {
				return 0, err
			}
		}
		if all, err = c.dump(ctx, pid); err != nil {
			return 0, err
		}
	}
	return all / counted, nil
}

// pid finds Envoy below a target's process.
func (c *callgrind) pid(root int) (int, error) {
	tree, err := procfs("/proc").tree(root)
	if err != nil {
		return 0, err
	}
	for pid, s := range tree {
		if strings.HasPrefix(s.name, "callgrind") {
			return pid, nil
		}
	}
	return 0, errors.New("Envoy does not run under callgrind")
}

// dump returns what was counted since the last dump.
func (c *callgrind) dump(ctx context.Context, pid int) (int64, error) {
	cmd := exec.CommandContext(ctx, c.control, "--dump", strconv.Itoa(pid))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // without the TMPDIR that Envoy does not have
	if said, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("callgrind_control: %w: %s", err, said)
	}
	files, err := filepath.Glob(c.counts + ".*")
	if err != nil || len(files) != 1 {
		return 0, errors.Join(err, fmt.Errorf("callgrind has written %d files", len(files)))
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "\ntotals: ")
	line, _, _ := strings.Cut(after, "\n")
	n, err := strconv.ParseInt(line, 10, 64)
	return n, errors.Join(err, os.Remove(files[0]))
}

// A counting is how many instructions Envoy took for a request.
type counting struct {
	name         string
	instructions int64
}

// A start starts a target in a folder of its own.
type start func(ctx context.Context, o options, dir string) (*target, error)

// countInstructions counts them for Envoy alone, the floor, and the variants of the listener whose name contains what
// follows in -what.
func (b *bench) countInstructions(ctx context.Context) (all []counting, err error) {
	c, err := newCallgrind(b.options.envoy, b.dir)
	if err != nil {
		return nil, err
	}
	if err := setProfile(ctx, b.mock.address, profile{Interval: time.Second, AnswerBytes: 200}); err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "gateway")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	gateway, err := startTarget(ctx, targetGoverned, b.options, dir, b.mock.address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, gateway.stop()) }()
	starts, err := variantStarts(dir, b.mock.address, gateway.job.Key)
	if err != nil {
		return nil, err
	}
	for i, v := range starts {
		if !strings.Contains(v.name, strings.TrimSpace(strings.TrimPrefix(b.options.what, whatInstructions))) {
			continue
		}
		o := b.options
		o.envoy = c.binary
		n, err := c.of(ctx, v.start, o, filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		all = append(all, counting{v.name, n})
		b.progress.Printf("%-52s %8d instructions a request", v.name, n)
	}
	return all, nil
}

// of starts a target, counts its instructions, and stops it.
func (c *callgrind) of(ctx context.Context, start start, o options, dir string) (n int64, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, err
	}
	t, err := start(ctx, o, dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	if err := t.await(ctx); err != nil {
		return 0, err
	}
	return c.count(ctx, t)
}

// instructionReport writes the page about the parts of the listener.
func instructionReport(s setup, all []counting) string {
	var b strings.Builder
	b.WriteString("# The listener, counted in instructions\n\nHow many instructions Envoy takes for a request of 200 B, asked one " +
		"after the other on one connection: Envoy alone, with the\ncheapest ext_proc service, and with the gateway's " +
		"listener, also without each of its parts. Those ask the ext_proc service of one\ngateway, with limits, budgets " +
		"and prices on. Valgrind counts them; two runs differ by less than 1 %, however busy the\nmachine is. Written by " +
		"`make bench`, which is\n\n" +
		"    go run ./test/bench -envoy bin/envoy -modelgate bin/modelgate -what instructions -out docs/benchmarks-listener.md" +
		"\n\n")
	b.WriteString(describeSetup(s, results{}) + "\n")
	t := &table{head: []string{"200 B, 1 connection", "thousand instructions", "less than the whole", "share"}}
	whole := int64(0)
	for _, c := range all {
		if c.name == wholeListener {
			whole = c.instructions
		}
	}
	for _, c := range all {
		t.add(c.name, fmt.Sprint(c.instructions/1000), fmt.Sprint((whole-c.instructions)/1000),
			fmt.Sprintf("%.3f", float64(c.instructions)/float64(max(whole, 1))))
	}
	b.WriteString(t.String())
	return b.String()
}
