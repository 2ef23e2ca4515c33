// Package sdk runs the official OpenAI SDKs, as their users do, against the whole gateway over HTTPS.
//
// What a newcomer gets wrong: the cases are not here. Each SDK has a program of its own in a folder of its own, written
// in its own language, that prints "ok NAME" or "not ok NAME: reason" for every case; this package starts the gateway,
// runs the programs and turns the lines into subtests. setup.sh installs the SDKs, and without it the cases skip.
package sdk

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
)

// common are the cases that the program of every SDK must have, by the same name. Each may have more.
func common() []string {
	return []string{
		"unary", "request id", "system and developer messages", "image", "a tool is called", "parallel tool calls",
		"tool results in a conversation of several turns", "structured output", "list of models", "a model whose id has a slash",
		"streamed", "streamed with usage", "streamed tool calls", "cancel in mid-stream",
		"a wrong key", "an unknown model", "a parameter that is wrong", "a rate limit of the provider",
		"an error within a stream is raised", "a stream that was cut is no complete answer", "a connection that breaks in mid-stream is raised",
		"translated unary", "translated streamed", "translated parallel tool calls", "translated streamed parallel tool calls",
		"translated system and developer messages", "translated image",
		"translated tool results in a conversation of several turns", "translated structured output",
	}
}

// longest is how long the program of one SDK may take. Each request in it has a limit of its own, much shorter.
const longest = 3 * time.Minute

func TestSDKs(t *testing.T) {
	vendor := newVendor(t)
	g := start(t, vendor)
	for _, sdk := range []struct {
		name    string
		command func(t *testing.T, folder string) *exec.Cmd
	}{
		{"Python", python},
		{"Node", node},
		{"Go", golang},
	} {
		t.Run(sdk.name, func(t *testing.T) {
			folder := filepath.Join(testenv.Root(t), "test", "sdk")
			cmd := sdk.command(t, folder)
			report(t, run(t, cmd, g))
			vendor.waitUntilCancelled(t)
		})
	}
	t.Run("README", func(t *testing.T) { testREADME(t, g) })
}

// python is the program of the Python SDK, in the environment that setup.sh made.
func python(t *testing.T, folder string) *exec.Cmd {
	interpreter := filepath.Join(testenv.Root(t), ".cache", "sdk-python", "bin", "python")
	if _, err := os.Stat(interpreter); err != nil {
		missing(t, "the Python SDK")
	}
	return exec.Command(interpreter, filepath.Join(folder, "python", "cases.py"))
}

// node is the program of the Node SDK.
func node(t *testing.T, folder string) *exec.Cmd {
	interpreter, err := exec.LookPath("node")
	if err != nil {
		missing(t, "Node")
	}
	if _, err := os.Stat(filepath.Join(folder, "node", "node_modules", "openai")); err != nil {
		missing(t, "the Node SDK")
	}
	return exec.Command(interpreter, filepath.Join(folder, "node", "cases.mjs"))
}

// golang is the program of the Go SDK. It is a module of its own, so that ours does not depend on the SDK.
func golang(t *testing.T, folder string) *exec.Cmd {
	module := filepath.Join(folder, "go")
	if out, err := offline("go", "-C", module, "list", "-deps", "./...").CombinedOutput(); err != nil {
		missing(t, "the Go SDK ("+firstLine(out)+")")
	}
	program := filepath.Join(t.TempDir(), "cases")
	out, err := offline("go", "-C", module, "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return exec.Command(program)
}

// offline is a command of Go's that downloads nothing.
func offline(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly", "GOTOOLCHAIN=local")
	return cmd
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// missing skips the cases of an SDK that is not installed. Continuous integration has all.
func missing(t *testing.T, what string) {
	t.Helper()
	const hint = ": run test/sdk/setup.sh"
	if os.Getenv("CI") != "" {
		t.Fatal("without " + what + hint)
	}
	t.Skip("needs " + what + hint)
}

// run runs the program of an SDK to its end and returns the lines that it printed.
func run(t *testing.T, cmd *exec.Cmd, g *gateway) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	bounded := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	ca := filepath.Join(g.dir, "ca.crt")
	bounded.Env = append(cleanEnv(),
		"GATEWAY_URL="+g.url, "GATEWAY_CA="+ca, "GATEWAY_KEY="+g.key,
		"NODE_EXTRA_CA_CERTS="+ca, // Node reads it when it starts; a program cannot say it later
		"PYTHONDONTWRITEBYTECODE=1",
	)
	var stdout, stderr bytes.Buffer
	bounded.Stdout, bounded.Stderr = &stdout, &stderr
	bounded.WaitDelay = 10 * time.Second
	err := bounded.Run()
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

// report makes a subtest of every line.
func report(t *testing.T, lines []string) {
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
	for _, name := range common() {
		if !seen[name] {
			t.Errorf("the case %q is missing", name)
		}
	}
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
