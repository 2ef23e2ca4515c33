// Package agents runs coding agents against the whole gateway, each with a provider that does not speak its dialect.
// setup.sh installs the agents, and without it the cases skip.
//
// The tests run in a network namespace of their own, which has only the loopback device: an agent reaches the gateway
// and nothing else.
package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

func TestMain(m *testing.M) {
	if code, elsewhere := harness.Alone(); elsewhere {
		os.Exit(code)
	}
	harness.Main(m)
}

// longest is how long an agent may take.
const longest = time.Minute

// start returns a gateway with a provider that plays a script, which calls the agent's shell with a parameter.
func start(t *testing.T, shell, parameter string) (*harness.Gateway, *scripted) {
	t.Helper()
	v := newScripted(t, shell, parameter)
	g := harness.Run(t, t.TempDir())
	harness.Must(t, "kind: Provider\nname: scripted\nvendor: cerebras\nendpoint: "+v.URL+"/v1\nmodels: [gpt]\n",
		"config", "apply", "--data", g.Dir, "-f", "-")
	harness.Eventually(t, "configuration in force", func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL+"/v1/models/scripted/gpt", http.NoBody)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+g.Key)
		answer, err := g.Client.Do(r)
		if err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
		return errors.Join(err, answer.Body.Close())
	})
	return g, v
}

func TestClaudeCode(t *testing.T) {
	program := installed(t, "@anthropic-ai/claude-code-"+platform(), "claude")
	g, v := start(t, "Bash", "command")
	out := run(t, exec.Command(program, "--print", "Say it with the shell.", "--model", "scripted/gpt",
		"--output-format", "json", "--allowedTools", "Bash"),
		"HOME="+t.TempDir(), "ANTHROPIC_BASE_URL="+g.URL, "ANTHROPIC_API_KEY="+g.Key,
		"NODE_EXTRA_CA_CERTS="+filepath.Join(g.Dir, "ca.crt"), "ANTHROPIC_SMALL_FAST_MODEL=scripted/gpt",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	var done struct {
		IsError bool `json:"is_error"`
		Turns   int  `json:"num_turns"`
		Result  string
		Usage   struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		}
	}
	require.NoError(t, json.Unmarshal(out, &done), "%s", out)
	require.False(t, done.IsError, "%s", out)
	require.Equal(t, "The tool said: "+spoken, done.Result)
	require.Equal(t, 2, done.Turns)
	require.Equal(t, []int{2 * promptTokens, 2 * answerTokens}, []int{done.Usage.Input, done.Usage.Output})
	v.requireResult(t)
}

// codexConfig makes the gateway Codex's only provider.
const codexConfig = `model = "scripted/gpt"
model_provider = "gateway"
web_search = "disabled"
[model_providers.gateway]
name = "gateway"
base_url = "%s/v1"
env_key = "GATEWAY_KEY"
wire_api = "responses"
`

func TestCodex(t *testing.T) {
	target := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + "-unknown-linux-musl"
	program := installed(t, "@openai/codex-"+platform(), "vendor", target, "bin", "codex")
	g, v := start(t, "exec_command", "cmd")
	home := t.TempDir()
	write(t, filepath.Join(home, ".codex", "config.toml"), fmt.Sprintf(codexConfig, g.URL))
	out := run(t, exec.Command(program, "exec", "--json", "--skip-git-repo-check",
		"--dangerously-bypass-approvals-and-sandbox", "Say it with the shell."),
		"HOME="+home, "GATEWAY_KEY="+g.Key, "SSL_CERT_FILE="+filepath.Join(g.Dir, "ca.crt"))
	var said, usage string
	for line := range bytes.Lines(out) {
		switch e := gjson.ParseBytes(line); e.Get("type").Str {
		case "item.completed":
			if e.Get("item.type").Str == "agent_message" {
				said = e.Get("item.text").Str
			}
		case "turn.completed":
			usage = fmt.Sprint(e.Get("usage.input_tokens").Int(), e.Get("usage.output_tokens").Int())
		}
	}
	require.Contains(t, said, "The tool said: ", "%s", out)
	require.Contains(t, said, spoken)
	require.Equal(t, fmt.Sprint(2*promptTokens, 2*answerTokens), usage)
	v.requireResult(t)
}

// geminiSettings has Gemini CLI use a key. Without it, GOOGLE_GEMINI_BASE_URL makes it choose a sign-in that it
// refuses.
const geminiSettings = `{"security": {"auth": {"selectedType": "gemini-api-key"}}}`

func TestGeminiCLI(t *testing.T) {
	program := installed(t, "@google/gemini-cli", "bundle", "gemini.js")
	g, v := start(t, "run_shell_command", "command")
	home := t.TempDir()
	write(t, filepath.Join(home, ".gemini", "settings.json"), geminiSettings)
	out := run(t, exec.Command("node", program, "--prompt", "Say it with the shell.", "--model", "scripted/gpt",
		"--output-format", "json", "--approval-mode", "yolo", "--skip-trust"),
		"HOME="+home, "GOOGLE_GEMINI_BASE_URL="+g.URL, "GEMINI_API_KEY="+g.Key,
		"NODE_EXTRA_CA_CERTS="+filepath.Join(g.Dir, "ca.crt"))
	done := gjson.ParseBytes(out)
	require.Contains(t, done.Get("response").Str, "The tool said: ", "%s", out)
	require.Contains(t, done.Get("response").Str, spoken)
	tokens := done.Get(`stats.models.scripted/gpt.tokens`)
	require.Equal(t, []int64{2 * promptTokens, 2 * answerTokens},
		[]int64{tokens.Get("prompt").Int(), tokens.Get("candidates").Int()}, "%s", out)
	v.requireResult(t)
}

// openCodeConfig makes the gateway OpenCode's only provider, with Anthropic's dialect.
const openCodeConfig = `{
  "model": "gateway/scripted/gpt",
  "provider": {"gateway": {
    "npm": "@ai-sdk/anthropic",
    "options": {"baseURL": "%s/v1", "apiKey": "{env:GATEWAY_KEY}"},
    "models": {"scripted/gpt": {}}
  }}
}`

func TestOpenCode(t *testing.T) {
	program := installed(t, "opencode-"+platform(), "bin", "opencode")
	g, v := start(t, "bash", "command")
	home := t.TempDir()
	write(t, filepath.Join(home, ".config", "opencode", "opencode.json"), fmt.Sprintf(openCodeConfig, g.URL))
	out := run(t, exec.Command(program, "run", "--format", "json", "Say it with the shell."),
		"HOME="+home, "GATEWAY_KEY="+g.Key, "NODE_EXTRA_CA_CERTS="+filepath.Join(g.Dir, "ca.crt"))
	var said string
	var usage [2]int64
	for line := range bytes.Lines(out) {
		switch e := gjson.ParseBytes(line); e.Get("type").Str {
		case "text":
			said = e.Get("part.text").Str
		case "step_finish":
			usage[0] += e.Get("part.tokens.input").Int()
			usage[1] += e.Get("part.tokens.output").Int()
		}
	}
	require.Equal(t, "The tool said: "+spoken, said, "%s", out)
	require.Equal(t, [2]int64{2 * promptTokens, 2 * answerTokens}, usage)
	v.requireResult(t)
}

// write writes a file of settings.
func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

// platform is the end of the names of packages with binaries.
func platform() string {
	return map[string]string{"amd64": "linux-x64", "arm64": "linux-arm64"}[runtime.GOARCH]
}

// installed returns a program of a package.
func installed(t *testing.T, name string, path ...string) string {
	t.Helper()
	program := filepath.Join(append([]string{testenv.Root(t), "test", "agents", "node_modules", name}, path...)...)
	if _, err := os.Stat(program); err != nil {
		testenv.Missing(t, name, "test/agents/setup.sh")
	}
	return program
}

// run runs an agent in an empty folder and returns what it printed.
func run(t *testing.T, cmd *exec.Cmd, env ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	bounded := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	bounded.Dir, bounded.Env = t.TempDir(), append(harness.CleanEnv(), env...)
	bounded.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	bounded.Stdout, bounded.Stderr = &stdout, &stderr
	require.NoError(t, bounded.Run(), "%s\n%s", &stdout, &stderr)
	return stdout.Bytes()
}
