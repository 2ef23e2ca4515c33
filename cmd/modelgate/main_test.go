package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExitCodesAndWhereThingsAreSaid(t *testing.T) {
	cases := map[string]struct {
		args           []string
		exit           int
		stdout, stderr string
	}{
		"help":                   {[]string{"--help"}, exitOK, "controlplane", ""},
		"version":                {[]string{"version"}, exitOK, "modelgate ", ""},
		"the flag version":       {[]string{"--version"}, exitOK, "modelgate ", ""},
		"the command help":       {[]string{"help", "key", "create"}, exitOK, "Usage: modelgate key create", ""},
		"help alone":             {[]string{"help"}, exitOK, "See what happens:", ""},
		"help of nothing":        {[]string{"help", "nonsense"}, exitUsage, "", "nonsense"},
		"no command":             {nil, exitOK, "controlplane", ""},
		"an unknown flag":        {[]string{"run", "--nonsense"}, exitUsage, "", "unknown flag --nonsense"},
		"a wrong log level":      {[]string{"version", "--log-level", "loud"}, exitUsage, "", "--log-level"},
		"a bootstrap":            {[]string{"envoy", "bootstrap", "--node", "edge-7"}, exitOK, "id: edge-7", ""},
		"a bootstrap of nowhere": {[]string{"envoy", "bootstrap", "--xds-address", "nowhere"}, exitUsage, "", `"nowhere"`},
		// Report 15: what is checked at run time has the exit code of what is checked before.
		"a time that is none": {[]string{"audit", "--since", "yesterday"}, exitUsage, "", "--since is neither"},
		"a time-out too long": {[]string{"config", "apply", "-f", "/dev/null", "--timeout", "2m"}, exitFailed, "",
			"contains no object"},
		"a wait that is too long": {[]string{"key", "revoke", "x", "--timeout", "2m"}, exitUsage, "", "--timeout must be"},
		"a kind that is none":     {[]string{"config", "get", "things"}, exitUsage, "", "there is no kind"},
		"a limit that is none":    {[]string{"org", "create", "acme", "--limit", "tokens:5"}, exitUsage, "", "--limit"},
		"an expiry that is none": {[]string{"token", "create", "--name", "n", "--scopes", "usage:read", "--expires",
			"soon"}, exitUsage, "", "--expires"},
		"no files": {[]string{"config", "validate"}, exitUsage, "", "at least one file"},
		"a vendor that is none": {[]string{"translate", "request", "--provider", "acme", "--model", "m", "/dev/null"},
			exitUsage, "", `no provider "acme"`},
		"xDS on a network without TLS": {
			[]string{"controlplane", "--listen", "0.0.0.0:0", "--pepper", "pepper", "--admin-token", "token"}, exitUsage, "",
			"mutual TLS",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			var stdout, stderr bytes.Buffer
			require.Equal(t, c.exit, execute(t.Context(), c.args, &stdout, &stderr), stderr.String())
			require.Contains(t, stdout.String(), c.stdout)
			require.Contains(t, stderr.String(), c.stderr)
			if c.stderr == "" {
				require.Empty(t, stderr.String())
			} else {
				require.Equal(t, 1, bytes.Count(stderr.Bytes(), []byte(c.stderr)), "an error is said once")
			}
		})
	}
}

// TestHelpIsInGroups has the flags that are no command's own last, and no command outside a group.
func TestHelpIsInGroups(t *testing.T) {
	var out bytes.Buffer
	require.Equal(t, exitOK, execute(t.Context(), []string{"config", "list", "--help"}, &out, &out))
	own, gateway, every := strings.Index(out.String(), "\nFlags:"), strings.Index(out.String(), "--server"),
		strings.Index(out.String(), "--log-level")
	require.True(t, 0 < own && own < gateway && gateway < every, out.String())
	parser, err := newParser(&commands{}, "")
	require.NoError(t, err)
	for _, c := range parser.Model.Children {
		require.NotNil(t, c.Group, c.Name)
		require.NotEqual(t, c.Group.Key, c.Group.Title, "the group of %s has a title", c.Name)
	}
}

// TestTheManualIsMadeFromTheCommands compares the files in docs with the table of commands.
func TestTheManualIsMadeFromTheCommands(t *testing.T) {
	page, markdown, err := theManual()
	require.NoError(t, err)
	for name, want := range map[string]string{"modelgate.1": page, "commands.md": markdown} {
		text, err := os.ReadFile("../../docs/" + name)
		require.NoError(t, err)
		require.Equal(t, want, string(text), "docs/%s: run make generate", name)
	}
	require.Contains(t, page, "\n.B modelgate key create \\-\\-name=STRING [flags]\nCreate a key.")
	require.Contains(t, page, "\n.B 4\nA change is not made")
	var out bytes.Buffer
	require.Equal(t, exitOK, execute(t.Context(), []string{"man"}, &out, &out))
	require.Equal(t, page, out.String())
}

// TestTheDataFolderMayBeInTheEnvironment finds the gateway that $MODELGATE_DATA names.
func TestTheDataFolderMayBeInTheEnvironment(t *testing.T) {
	startFakeAdmin(t)
	folder, err := filepath.Abs("data")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	c := &cli{}
	_, said := c.run(t, exitFailed, "org", "list")
	require.Contains(t, said, "finding the gateway")
	t.Setenv("MODELGATE_DATA", folder)
	out, _ := c.run(t, exitOK, "org", "list")
	require.Equal(t, "There are no organizations.\n", out)
}

func TestEveryCommandIsInTheDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	parser, err := newParser(&commands{}, "")
	require.NoError(t, err)
	for _, c := range parser.Model.Children {
		found, err := regexp.Match("(`|modelgate )"+c.Name+`\b`, text)
		require.NoError(t, err)
		require.True(t, found, "docs/cli.md lacks %s", c.Name)
	}
}

func TestWhatMayNotBeOpenedNamesWhoseItHasToBe(t *testing.T) {
	denied := &fs.PathError{Op: "open", Path: "/data/etcd/member/wal", Err: syscall.EACCES}
	err := ofAnother(fmt.Errorf("etcd cannot be started: %w", denied))
	require.Contains(t, err.Error(), fmt.Sprintf("give /data/etcd/member/wal to the user that runs modelgate (uid %d)",
		os.Getuid()))
	port := &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EACCES)}
	require.Equal(t, port, ofAnother(port), "no file is its reason")
}

func TestShellQuote(t *testing.T) {
	for path, want := range map[string]string{
		"/data/ca.crt": "/data/ca.crt",
		"/my data/ca":  "'/my data/ca'",
		"/it's":        `'/it'\''s'`,
		"/$(id)":       "'/$(id)'",
	} {
		require.Equal(t, want, admincli.ShellQuote(path))
	}
}
