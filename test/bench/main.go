// Command bench measures what the gateway costs: the complete gateway, and the same Envoy without it, side by side in
// one run, against a mock provider on loopback.
//
// Only the differences and ratios within one run carry over to another machine. The mock and
// the load generator run on the same cores as what they measure; they are processes of their own so that their CPU is
// not counted, but while they run, what they measure waits.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/modelgate/modelgate/envoy/process"
)

// The first argument of the processes that this one starts from its own binary.
const (
	roleMock  = "mock"
	roleLoad  = "load"
	roleFloor = "floor"
	roleProxy = "proxy"
)

// longestRun bounds the whole run, whatever hangs.
const longestRun = time.Hour

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		log.Fatal("bench: ", err)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == roleMock:
		return serveMock(os.Stdin, os.Stdout)
	case len(args) == 1 && args[0] == roleLoad:
		return generate(ctx, os.Stdin, os.Stdout)
	case len(args) == 1 && args[0] == roleFloor:
		return serveFloor(ctx, os.Stdin, os.Stdout)
	case len(args) == 1 && args[0] == roleProxy:
		return serveProxy(os.Stdin, os.Stdout)
	}
	ctx, cancel := context.WithTimeout(ctx, longestRun)
	defer cancel()
	return compare(ctx, args, os.Stdout)
}

// options are the command line.
type options struct {
	envoy     string
	modelgate string
	quick     bool
	aiGateway string
	litellm   string
	portkey   string
	what      string
	out       string
	record    string
	check     string
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.envoy, "envoy", "", "Envoy binary (default: as for modelgate run)")
	flags.StringVar(&o.modelgate, "modelgate", "bin/modelgate", "the gateway's binary; empty: measure Envoy alone")
	flags.BoolVar(&o.quick, "quick", false, "one short pass, to see that everything works: no figures to rely on")
	flags.StringVar(&o.aiGateway, "aigateway", "", "the command of Envoy AI Gateway (aigw), to measure it too")
	flags.StringVar(&o.litellm, "litellm", "", "the command of LiteLLM's proxy in its virtual environment, to measure it too")
	flags.StringVar(&o.portkey, "portkey", "", "the script that starts Portkey's gateway, to measure it too")
	flags.StringVar(&o.what, "what", "", "measure only the scenarios whose name contains one of these, with | between them; instructions: count those of Envoy for each part of the listener")
	flags.StringVar(&o.out, "out", "", "file that the tables are written to as well")
	flags.StringVar(&o.record, "record", "", "file that the ratios are written to")
	flags.StringVar(&o.check, "check", "", "file with recorded ratios: print those that have moved")
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	return o, err
}

// compare measures every scenario on every target and reports.
func compare(ctx context.Context, args []string, stdout io.Writer) (err error) {
	o, err := parseOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.envoy, err = process.Find(ctx, o.envoy); err != nil {
		return err
	}
	setup, err := describe(ctx, o)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "modelgate-bench-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	b := &bench{options: o, dir: dir, progress: log.New(os.Stderr, "", log.Ltime), peers: setup.Peers, results: results{}}
	for _, p := range b.peers {
		if p.absent != "" {
			b.progress.Printf("%s is not measured: %s", p.target, p.absent)
		}
	}
	if b.mock, err = startMock(ctx); err != nil {
		return err
	}
	defer b.mock.stop()
	if strings.HasPrefix(o.what, whatInstructions) {
		counted, err := b.countInstructions(ctx)
		if err != nil {
			return err
		}
		return o.write(stdout, instructionReport(setup, counted), b.results)
	}
	all := chosen(scenarios(o.quick), o.what)
	if len(all) == 0 {
		return fmt.Errorf("no scenario's name contains %q", o.what)
	}
	all, others := affordable(all, files())
	for _, s := range others {
		b.progress.Printf("%s: not measured: a proxy needs %d open files, and may have %d (ulimit -n)",
			s.name, s.job.files()+filesBeside, files())
	}
	if err := b.run(ctx, all); err != nil {
		return err
	}
	setup.Peers = b.peers // some may not have started
	return o.write(stdout, report(setup, all, b.results), b.results)
}

// write writes a report, also into the files that were asked for, and says what has moved.
func (o *options) write(stdout io.Writer, text string, r results) error {
	if _, err := io.WriteString(stdout, text); err != nil {
		return err
	}
	if o.out != "" {
		if err := os.WriteFile(o.out, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if o.record != "" {
		if err := r.record(o.record); err != nil {
			return err
		}
	}
	if o.check == "" {
		return nil
	}
	t, err := r.compared(o.check)
	if err != nil {
		return err
	}
	said := "\n## What has moved by more than 10 %\n\n" + t.String()
	if len(t.rows) == 0 {
		said = "\nNo ratio has moved by more than 10 %.\n"
	}
	_, err = io.WriteString(stdout, said)
	return err
}

// describe says what is measured, and on what machine.
func describe(ctx context.Context, o options) (setup, error) {
	s := setup{
		Date: time.Now().UTC().Format(time.DateOnly), Quick: o.quick, Go: runtime.Version(),
		Machine: fmt.Sprintf("%d cores, %s/%s, %d open files a process", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH,
			files()), Peers: findPeers(ctx, o),
	}
	said, err := output(ctx, o.envoy, "--version")
	if err != nil {
		return s, err
	}
	s.Envoy = envoyVersion(said)
	if o.modelgate != "" {
		s.Gateway, err = output(ctx, o.modelgate, "--version")
	}
	return s, err
}

// envoyVersion cuts "PATH  version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL" down to what follows the commit.
func envoyVersion(said string) string {
	_, version, _ := strings.Cut(said, "version: ")
	_, version, _ = strings.Cut(version, "/")
	return version
}
