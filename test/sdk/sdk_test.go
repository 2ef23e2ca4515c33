// Package sdk runs the official OpenAI SDKs, and the chat models that LangChain and the Vercel AI SDK make of OpenAI's
// interface, as their users do, against the whole gateway over HTTPS.
//
// The cases are not here. Each client has a program of its own, written in its own language,
// that prints "ok NAME" or "not ok NAME: reason" for every case; this package starts the gateway, runs the programs
// and turns the lines into subtests. setup.sh installs the clients, and without it the cases skip. What recorded
// answers must become in every client is in testdata/recordings.json and testdata/conversations.json.
package sdk

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
	"github.com/modelgate/modelgate/test/realtimevendor"
)

// common are the cases that the program of every SDK must have, by the same name, besides those of the recordings.
// Each may have more.
func common() []string {
	return []string{
		"unary", "request id", "system and developer messages", "image", "a tool is called", "parallel tool calls",
		"tool results in a conversation of several turns", "structured output", "list of models",
		"a model whose id has a slash",
		"streamed", "streamed with usage", "streamed tool calls", "cancel in mid-stream",
		"a wrong key", "an unknown model", "a parameter that is wrong", "a rate limit of the provider",
		"an error within a stream is raised", "a stream that was cut is no complete answer",
		"a connection that breaks in mid-stream is raised",
		"translated unary", "translated streamed", "translated parallel tool calls",
		"translated streamed parallel tool calls",
		"translated system and developer messages", "translated image",
		"translated tool results in a conversation of several turns", "translated structured output",
		"files", "an upload in parts", "a batch", "a batch that is wrong says where", "a batch is cancelled",
		"list of batches in pages",
		"a fine-tuning job", "webhooks", "unknown ids", "a file for another purpose", "an idempotency key",
	}
}

func TestMain(m *testing.M) { harness.Main(m) }

// start starts the gateway and adds the documents to its configuration, among which is the provider "claude".
func start(t *testing.T, documents string) *harness.Gateway {
	t.Helper()
	g := harness.Run(t, t.TempDir(), "--webhook-network", "127.0.0.0/8")
	jobs := harness.Must(t, "", "config", "get", "jobservice", "default", "--data", g.Dir)
	harness.Must(t, documents+"---\n"+jobs+"stored_responses: {}\n", "config", "apply", "--data", g.Dir, "-f", "-")
	harness.Eventually(t, "configuration in force", func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL+"/v1/models/claude/text", http.NoBody)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+g.Key)
		response, err := g.Client.Do(r)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return errors.Join(err, response.Body.Close())
	})
	return g
}

// longest is how long the program of one client may take. Each request in it has a limit of its own, much shorter.
const longest = 3 * time.Minute

func TestSDKs(t *testing.T) {
	vendor, hooks := newVendor(t), newReceiver(t)
	g := start(t, vendor.document()+hooks.document()+
		"---\n"+provider("rt", "openai", realtimevendor.New(t).URL+"/v1"))
	var recorded []string
	for _, c := range slices.Concat(readCases(t, "recordings.json"), readCases(t, "conversations.json")) {
		recorded = append(recorded, c.Name)
	}
	folder := filepath.Join(testenv.Root(t), "test", "sdk")
	for _, client := range []struct {
		name, program string
		command       func(t *testing.T, folder, program string) *exec.Cmd
		official      bool // whether it has the common cases
	}{
		{"Python", "cases.py", python, true},
		{"Node", "cases.mjs", node, true},
		{"Go", "chat", golang, true},
		{"Anthropic for Go", "anthropic", golang, false},
		{"Responses for Go", "responses", golang, false},
		{"Anthropic for Python", "anthropic_cases.py", python, false},
		{"Google for Python", "gemini_cases.py", python, false},
		{"Responses for Python", "responses_cases.py", python, false},
		{"Anthropic for Node", "anthropic.mjs", node, false},
		{"Google for Node", "gemini.mjs", node, false},
		{"Responses for Node", "responses.mjs", node, false},
		{"stored responses for Python", "stored_cases.py", python, false},
		{"Realtime for Python", "realtime_cases.py", python, false},
		{"LangChain for Python", "langchain_cases.py", python, false},
		{"LangChain for Node", "langchain.mjs", node, false},
		{"Vercel AI SDK", "vercel.mjs", node, false},
	} {
		t.Run(client.name, func(t *testing.T) {
			lines := run(t, client.command(t, folder, client.program), g, hooks)
			left := vendor.waitUntilCancelled(t)
			if client.program == "realtime_cases.py" || client.program == "stored_cases.py" {
				report(t, lines, nil) // they have no recordings
				return
			}
			if !client.official {
				report(t, lines, recorded)
				return
			}
			report(t, lines, slices.Concat(common(), recorded))
			require.Positive(t, left, "no stream was cancelled")
		})
	}
	t.Run("README", func(t *testing.T) { testREADME(t, g) })
}

// python is a program in Python, in the environment that setup.sh made.
func python(t *testing.T, folder, program string) *exec.Cmd {
	interpreter := filepath.Join(testenv.Root(t), ".cache", "sdk-python", "bin", "python")
	if _, err := os.Stat(interpreter); err != nil {
		testenv.Missing(t, "the Python SDK", "test/sdk/setup.sh")
	}
	return exec.Command(interpreter, filepath.Join(folder, "python", program))
}

// node is a program for Node.
func node(t *testing.T, folder, program string) *exec.Cmd {
	interpreter, err := exec.LookPath("node")
	if err != nil {
		testenv.Missing(t, "Node", "test/sdk/setup.sh")
	}
	if _, err := os.Stat(filepath.Join(folder, "node", "node_modules", ".installed")); err != nil {
		testenv.Missing(t, "the Node SDK", "test/sdk/setup.sh")
	}
	return exec.Command(interpreter, filepath.Join(folder, "node", program))
}

// golang is the program of the Go SDK. It is a module of its own, so that ours does not depend on the SDK.
func golang(t *testing.T, folder, program string) *exec.Cmd {
	module := filepath.Join(folder, "go")
	if out, err := offline("go", "-C", module, "list", "-deps", "./...").CombinedOutput(); err != nil {
		testenv.Missing(t, "the Go SDK ("+firstLine(out)+")", "test/sdk/setup.sh")
	}
	binary := filepath.Join(t.TempDir(), "cases")
	out, err := offline("go", "-C", module, "build", "-ldflags=-s -w", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return exec.Command(binary, program)
}

// offline is a command of Go's that downloads nothing. It has the flags of other builds, whose packages it can use.
func offline(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOTOOLCHAIN=local",
		"GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=readonly")
	return cmd
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// run runs the program of a client to its end and returns the lines that it printed.
func run(t *testing.T, cmd *exec.Cmd, g *harness.Gateway, hooks *receiver) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	bounded := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	ca := filepath.Join(g.Dir, "ca.crt")
	recordings, err := filepath.Abs("testdata")
	require.NoError(t, err)
	bounded.Env = append(harness.CleanEnv(),
		"GATEWAY_URL="+g.URL, "GATEWAY_CA="+ca, "GATEWAY_KEY="+g.Key, "RECORDINGS="+recordings,
		"WEBHOOKS_URL="+hooks.URL, "WEBHOOKS_SECRET="+webhookSecret,
		"NODE_EXTRA_CA_CERTS="+ca, // Node reads it when it starts; a program cannot say it later
		"PYTHONDONTWRITEBYTECODE=1",
	)
	var stdout, stderr bytes.Buffer
	bounded.Stdout, bounded.Stderr = &stdout, &stderr
	bounded.WaitDelay = 10 * time.Second
	err = bounded.Run()
	if stderr.Len() > 0 {
		t.Logf("it printed:\n%s", &stderr)
	}
	require.NoError(t, ctx.Err(), "the program hangs after:\n%s", &stdout)
	if err != nil && !strings.Contains("\n"+stdout.String(), "\nnot ok ") {
		t.Errorf("the program failed, but no case of it: %v", err)
	}
	if err == nil && strings.Contains("\n"+stdout.String(), "\nnot ok ") {
		t.Error("a case failed, but the program did not")
	}
	return strings.Split(strings.TrimRight(stdout.String(), "\n"), "\n")
}

// report makes a subtest of every line. Every case that is wanted must be among them.
func report(t *testing.T, lines, wanted []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, line := range lines {
		name, reason, failed := result(line)
		if name == "" {
			t.Errorf("not the line of a case: %s", line)
			continue
		}
		require.False(t, seen[name], "two cases have the name %q", name)
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			if failed {
				t.Error(reason)
			}
		})
	}
	missing := slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { return seen[name] })
	require.Empty(t, missing, "cases that did not run")
}

// result reads the line of a case, whose name holds no ": ". The name is empty where the line is none.
func result(line string) (name, reason string, failed bool) {
	if name, ok := strings.CutPrefix(line, "ok "); ok {
		return name, "", false
	}
	rest, ok := strings.CutPrefix(line, "not ok ")
	if !ok {
		return "", "", false
	}
	name, reason, _ = strings.Cut(rest, ": ")
	return name, reason, true
}
