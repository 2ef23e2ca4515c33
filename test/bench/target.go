package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/template"
	"time"

	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/internal/certs"
)

// Names of the targets.
const (
	targetGateway   = "gateway"
	targetGoverned  = "limits, budgets and prices" // a gateway with all of them on
	targetEnvoy     = "Envoy alone"
	targetFloor     = "cheapest ext_proc"
	targetProxy     = "Go reverse proxy"
	targetAIGateway = "Envoy AI Gateway"
	targetLiteLLM   = "LiteLLM"
	targetPortkey   = "Portkey"
	targetDirect    = "the mock itself" // nothing between
)

const (
	providerName = "bench"
	messagesName = "bench-messages" // of the provider that speaks Anthropic's Messages
	// workers is how many threads Envoy has for requests, whatever the machine.
	workers      = 2
	readyTimeout = 3 * time.Minute // under valgrind an Envoy takes long
	stopTimeout  = 20 * time.Second
)

// A target is something that is measured, while it runs.
type target struct {
	name       string
	job        job    // what differs between targets
	translated string // the model of a provider that speaks another dialect; "": there is none
	stop       func() error
	log        string // the file that it writes, where the reason is if it does not answer; "": there is none
}

// startTarget starts a target that asks the mock at the address, and returns when it answers.
func startTarget(ctx context.Context, name string, o options, dir, mock string) (*target, error) {
	start := startEnvoy
	switch name {
	case targetGateway:
		start = startGateway
	case targetGoverned:
		start = startGoverned
	case targetFloor:
		start = startFloor
	case targetProxy:
		start = startProxy
	case targetAIGateway:
		start = startAIGateway
	case targetLiteLLM:
		start = startLiteLLM
	case targetPortkey:
		start = startPortkey
	case targetDirect:
		start = startDirect
	}
	t, err := start(ctx, o, dir, mock)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	if err := t.await(ctx); err != nil {
		err = errors.Join(fmt.Errorf("waiting for %s: %w", name, err), t.stop())
		if t.log != "" {
			err = errors.Join(err, lastLines(t.log))
		}
		return nil, err
	}
	return t, nil
}

// await asks until there is an answer: a configuration that was applied takes a moment to be in force.
func (t *target) await(ctx context.Context) error {
	at, err := newEndpoint(&t.job)
	if err != nil {
		return err
	}
	body, err := requestBody(t.job.Model, 0, false)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	c := &client{at: at}
	defer c.close()
	for {
		if err = c.ask(body, requestTimeout, discard); err == nil {
			return nil
		}
		if !wait(ctx, 20*time.Millisecond) {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

//go:embed envoy.yaml
var envoyConfig string

// startEnvoy starts the same Envoy in the same way as the gateway does, on a configuration without the gateway.
func startEnvoy(ctx context.Context, o options, dir, mock string) (*target, error) {
	e, err := startPlainEnvoy(ctx, o.envoy, dir, mock, "")
	if err != nil {
		return nil, err
	}
	return &target{name: targetEnvoy, stop: e.stop, job: plainJob(e.address, dir, e.pid, partEnvoy)}, nil
}

// plainJob is what the load generator is told of an Envoy without the gateway.
func plainJob(address, dir string, pid int, root part) job {
	return job{URL: "https://" + address, CA: filepath.Join(dir, certs.FileCA), Key: "unused",
		Model: providerName + "/mock", PID: pid, Root: root}
}

// A plainEnvoy runs without the gateway.
type plainEnvoy struct {
	address string
	pid     int
	stop    func() error
}

// startPlainEnvoy starts an Envoy that asks the ext_proc service at a socket, where that is not "".
func startPlainEnvoy(ctx context.Context, binary, dir, mock, socket string) (*plainEnvoy, error) {
	if _, err := certs.Ensure(dir, nil, time.Now()); err != nil {
		return nil, err
	}
	return startConfigured(ctx, binary, dir, "bench", func(admin string) ([]byte, error) {
		return renderEnvoy(dir, admin, mock, socket)
	})
}

// startConfigured starts an Envoy in a folder of its own, with the configuration for an admin socket, and returns when
// the listener is bound.
func startConfigured(ctx context.Context, binary, dir, listener string,
	configure func(admin string) ([]byte, error)) (*plainEnvoy, error) {
	sockets, remove, err := process.SocketDir(dir)
	if err != nil {
		return nil, err
	}
	admin, config := filepath.Join(sockets, "admin.sock"), filepath.Join(dir, "envoy.yaml")
	text, err := configure(admin)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return nil, errors.Join(err, remove())
	}
	p, err := process.Start(ctx, process.Options{
		Binary: binary, Config: config, AdminSocket: admin, Concurrency: workers, Log: zap.NewNop(),
	})
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	stop := func() error {
		p.Stop(context.WithoutCancel(ctx), time.Second)
		return remove()
	}
	ready, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	bound, err := p.AwaitListener(ready, listener)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return &plainEnvoy{address: bound.String(), pid: p.Pid(), stop: stop}, nil
}

func renderEnvoy(dir, admin, mock, socket string) ([]byte, error) {
	return render(envoyConfig, mock, map[string]any{"AdminSocket": admin, "Socket": socket,
		"Certificate": filepath.Join(dir, certs.FileServer), "PrivateKey": filepath.Join(dir, certs.FileServerKey)})
}

// render fills a template of a configuration, also with where the mock is.
func render(config, mock string, data map[string]any) ([]byte, error) {
	t, err := template.New("").Option("missingkey=error").Parse(config)
	if err != nil {
		return nil, err
	}
	if data["MockHost"], data["MockPort"], err = net.SplitHostPort(mock); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, data)
	return b.Bytes(), err
}

// startGateway starts the complete gateway, as "modelgate run" does, with one provider: the mock.
func startGateway(ctx context.Context, o options, dir, mock string) (*target, error) {
	cmd := exec.Command(o.modelgate, "run", "--data", dir, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--envoy", o.envoy, "--concurrency", strconv.Itoa(workers), "--grace", "1s")
	// Accounts of whoever runs this stay out of it.
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY=", "ANTHROPIC_API_KEY=")
	log, err := os.Create(filepath.Join(dir, "log")) // written, as in service, rather than thrown away
	if err != nil {
		return nil, err
	}
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	stop := func() error { return errors.Join(end(cmd), log.Close()) }
	if err := awaitLine(ctx, stdout, "ready"); err != nil {
		return nil, errors.Join(err, stop(), lastLines(log.Name()))
	}
	if err := applyProvider(ctx, o, dir, mock); err != nil {
		return nil, errors.Join(err, stop())
	}
	t := &target{name: targetGateway, stop: stop, job: job{
		CA: filepath.Join(dir, certs.FileCA), Model: providerName + "/mock", PID: cmd.Process.Pid, Root: partGo,
	}, translated: messagesName + "/claude-sonnet-4-5"}
	for name, value := range map[string]*string{"url": &t.job.URL, "key": &t.job.Key} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		*value = strings.TrimSpace(string(text))
	}
	return t, nil
}

func mockProvider(mock string) *configv1.Provider {
	return &configv1.Provider{Name: providerName, Vendor: "openai", Endpoint: "http://" + mock + "/v1"}
}

func applyProvider(ctx context.Context, o options, dir, mock string) error {
	return apply(ctx, o, dir, mockProvider(mock),
		&configv1.Provider{Name: messagesName, Vendor: "anthropic", Endpoint: mockProvider(mock).GetEndpoint(),
			Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "sk-ant-bench"}}})
}

func apply(ctx context.Context, o options, dir string, objects ...configv1.Object) error {
	var documents bytes.Buffer
	for _, object := range objects {
		text, err := configv1.MarshalYAML(object)
		if err != nil {
			return err
		}
		documents.WriteString("---\n")
		documents.Write(text)
	}
	_, err := command(ctx, o, &documents, "config", "apply", "--data", dir, "-f", "-")
	return err
}

// command runs one of the gateway's commands and returns what it printed.
func command(ctx context.Context, o options, stdin io.Reader, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, o.modelgate, args...)
	cmd.Stdin = stdin
	said, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			said = failed.Stderr
		}
		return nil, fmt.Errorf("modelgate %s: %w: %s", strings.Join(args[:2], " "), err, said)
	}
	return said, nil
}

// awaitLine reads until the line has come, and reads on in the background, so that the writer never has to wait.
func awaitLine(ctx context.Context, r io.Reader, wanted string) error {
	found := make(chan error, 1)
	go func() {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			if lines.Text() == wanted {
				found <- nil
			}
		}
		found <- fmt.Errorf("it ended without saying %q", wanted)
	}()
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	select {
	case err := <-found:
		return err
	case <-ctx.Done():
		return fmt.Errorf("it does not say %q: %w", wanted, ctx.Err())
	}
}

// end has a process stop, and kills it where it does not.
func end(cmd *exec.Cmd) error {
	// The only error is that it has ended already.
	_ = cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(stopTimeout, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	return cmd.Wait()
}

// lastLines returns the end of a log as an error.
func lastLines(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return fmt.Errorf("its log ends with:\n%s", text[max(0, len(text)-4000):])
}
