package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admin"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/datadir"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/secret"
)

const adminToken = "the-token"

// noPlane is a control plane that knows nothing.
type noPlane struct{}

func (noPlane) ObjectError(string, string) string { return "" }

func (noPlane) Keys() (int64, map[string]configv1.Object) { return 0, nil }

func (noPlane) Chains() map[string][]byte                    { return nil }
func (noPlane) DataPlane(context.Context) adminapi.DataPlane { return adminapi.DataPlane{} }

func (noPlane) TestProvider(context.Context, *configv1.Provider) (adminapi.ProviderTest, error) {
	return adminapi.ProviderTest{}, nil
}

// A cli runs command lines in a folder of files, beside the data folder of an admin API over a real etcd.
type cli struct {
	url    string
	hasher *auth.Hasher
	store  *configstore.Store
}

func newCLI(t *testing.T) *cli {
	t.Helper()
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("data", 0o700))
	root, err := secret.LoadRoot(filepath.Join("data", datadir.FilePepper))
	require.NoError(t, err)
	etcd := etcdtest.Start(t)
	store := configstore.New(etcd, func(o configv1.Object) error {
		return configv1.ValidateStored(o, all.Known).Err()
	}, zap.NewNop())
	c := &cli{hasher: auth.NewHasher(root.KeyPepper()), store: store}
	server := httptest.NewServer(api.New(api.Config{
		Store: store, Sealer: root.Sealer(), Hasher: c.hasher, Token: secret.New(adminToken), Vendors: all.Known,
		Plane: noPlane{},
		Audit: audit.New(etcd, nil, nil, zap.NewNop()), Log: zap.NewNop(),
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	c.write(t, "data/"+datadir.FileAdmin, server.URL+"\n")
	c.write(t, "data/"+datadir.FileAdminToken, adminToken+"\n")
	return c
}

func (c *cli) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

// stdin makes a text the standard input.
func (c *cli) stdin(t *testing.T, text string) {
	t.Helper()
	c.write(t, "input", text)
	input, err := os.Open("input")
	require.NoError(t, err)
	was := os.Stdin
	os.Stdin = input
	t.Cleanup(func() { os.Stdin = was; input.Close() })
}

// run demands the exit code, and returns what was said: to stdout, or to stderr where it failed.
func (c *cli) run(t *testing.T, exit int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	got := execute(t.Context(), args, &out, &errOut)
	require.Equal(t, exit, got, "%v\n%s%s", args, out.String(), errOut.String())
	return out.String(), errOut.String()
}

const files = `kind: Provider
name: mine
vendor: openai
models:
- a
---
kind: Model
name: team/best
targets:
- provider: mine
  model: a
`

func TestConfigOfAGateway(t *testing.T) {
	c := newCLI(t)
	c.write(t, "gw.yaml", files)

	out, _ := c.run(t, exitOK, "config", "validate", "gw.yaml")
	require.Equal(t, "2 objects are valid\n", out)
	out, errOut := c.run(t, exitFailed, "config", "diff", "-f", "gw.yaml")
	require.Contains(t, out, "--- /dev/null\n+++ new Provider mine\n@@ -0,0 +1,5 @@\n+kind: Provider\n")
	require.Contains(t, errOut, admin.ErrDifferent.Error())
	out, _ = c.run(t, exitOK, "config", "apply", "-f", "gw.yaml")
	require.Equal(t, "Provider mine created\nModel team/best created\n", out)
	out, _ = c.run(t, exitOK, "config", "diff", "-f", "gw.yaml")
	require.Empty(t, out)

	c.write(t, "gw.yaml", strings.Replace(files, "- a\n", "- b\n", 1))
	out, _ = c.run(t, exitFailed, "config", "diff", "gw.yaml")
	require.Contains(t, out, "-- a\n+- b\n")
	out, _ = c.run(t, exitOK, "config", "apply", "gw.yaml", "--data", "data")
	require.Equal(t, "Provider mine updated\nModel team/best unchanged\n", out)

	out, _ = c.run(t, exitOK, "config", "get", "providers")
	require.Equal(t, "kind: Provider\nname: mine\nvendor: openai\nmodels:\n- b\n", out)
	out, _ = c.run(t, exitOK, "config", "get", "model", "team/best", "-o", "json")
	require.Contains(t, out, `{"kind":"Model","name":"team/best",`)
	require.Equal(t, 1, strings.Count(out, "\n"))
	out, _ = c.run(t, exitOK, "config", "get", "Models", "-o", "name")
	require.Equal(t, "team/best\n", out)

	_, errOut = c.run(t, exitFailed, "config", "delete", "provider", "mine")
	require.Contains(t, errOut, "still in use")
	out, _ = c.run(t, exitOK, "config", "delete", "model", "team/best")
	require.Equal(t, "Model team/best deleted\n", out)
	_, errOut = c.run(t, exitFailed, "config", "get", "model", "team/best")
	require.Equal(t, "modelgate: Model team/best: no such object\n", errOut)
	out, _ = c.run(t, exitOK, "config", "get", "gateways")
	require.Empty(t, out)
}

func TestValidateKnowsWhoHasNoEndpoint(t *testing.T) {
	c := newCLI(t)
	for _, vendor := range []string{"compatible", "azure", "echo"} {
		c.write(t, "gw.yaml", "kind: Provider\nname: a\nvendor: "+vendor+"\n")
		for _, verb := range []string{"validate", "apply"} {
			_, errOut := c.run(t, exitFailed, "config", verb, "-f", "gw.yaml")
			require.Contains(t, errOut, "Provider a: endpoint: is required, "+vendor+" has none of its own")
		}
	}
}

func TestAFileWithoutObjectsIsNotValid(t *testing.T) {
	c := newCLI(t)
	for _, text := range []string{"", "\n---\n", "# nothing\n"} {
		c.write(t, "gw.yaml", text)
		for _, verb := range []string{"validate", "apply", "diff"} {
			_, errOut := c.run(t, exitFailed, "config", verb, "-f", "gw.yaml")
			require.Contains(t, errOut, "gw.yaml contains no object")
		}
	}
}

func TestListsAreOneJSONDocument(t *testing.T) {
	c := newCLI(t)
	c.write(t, "gw.yaml", files+"---\nkind: Provider\nname: other\nvendor: openai\n")
	c.run(t, exitOK, "config", "apply", "-f", "gw.yaml")
	out, _ := c.run(t, exitOK, "config", "list", "providers", "-o", "json")
	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	require.Len(t, list, 2)
	c.write(t, "list.json", out)
	said, _ := c.run(t, exitOK, "config", "apply", "-f", "list.json")
	require.Equal(t, "Provider mine unchanged\nProvider other unchanged\n", said, "apply takes it back")
	out, _ = c.run(t, exitOK, "key", "list", "-o", "json")
	require.Equal(t, "[]\n", out)
	out, _ = c.run(t, exitOK, "config", "get", "provider", "mine", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(out), &map[string]any{}))
}

// Report 15: names are taken wherever ids are.
func TestAKeyIsFoundByItsName(t *testing.T) {
	c := newCLI(t)
	for _, name := range []string{"ci", "ci two", "twice", "twice"} {
		c.run(t, exitOK, "key", "create", "--name", name)
	}
	c.run(t, exitOK, "key", "disable", "ci")
	out, _ := c.run(t, exitOK, "key", "get", "ci")
	require.Contains(t, out, "disabled: true")
	c.run(t, exitOK, "key", "enable", "ci")
	c.run(t, exitOK, "key", "rotate", "ci")
	c.run(t, exitOK, "key", "revoke", "ci")
	_, errOut := c.run(t, exitFailed, "key", "get", "ci")
	require.Contains(t, errOut, `there is no key "ci"`)
	out, _ = c.run(t, exitOK, "config", "get", "key", "ci two", "-o", "name")
	require.Regexp(t, "^key_", out)
	c.run(t, exitOK, "config", "delete", "key", "ci two")
	_, errOut = c.run(t, exitFailed, "config", "get", "key", "ci two")
	require.Contains(t, errOut, `there is no key "ci two"`)
	_, errOut = c.run(t, exitFailed, "key", "revoke", "twice")
	require.Contains(t, errOut, `several keys have the name "twice": key_`)
	c.run(t, exitOK, "token", "create", "--name", "metrics", "--scopes", "usage:read")
	c.run(t, exitOK, "token", "revoke", "metrics")
	out, _ = c.run(t, exitOK, "token", "list", "-o", "name")
	require.Empty(t, out)
}

func TestModelgateAlonePrintsItsHelp(t *testing.T) {
	c := &cli{}
	alone, _ := c.run(t, exitOK)
	help, _ := c.run(t, exitOK, "--help")
	require.Equal(t, help, alone)
	require.Contains(t, alone, "config")
}

func TestWhatGetPrintsCanBeAppliedAgain(t *testing.T) {
	c := newCLI(t)
	c.write(t, "gw.yaml", files+"---\nkind: Provider\nname: sealed\nvendor: openai\ncredential: {value: sk-upstream}\n")
	c.run(t, exitOK, "config", "apply", "-f", "gw.yaml")
	c.run(t, exitOK, "key", "create", "--name", "n")
	for _, kind := range []string{"providers", "models", "keys"} {
		out, _ := c.run(t, exitOK, "config", "get", kind)
		require.NotContains(t, out, "sk-upstream")
		c.write(t, kind+".yaml", out)
	}
	out, _ := c.run(t, exitOK, "config", "apply", "-f", "providers.yaml", "-f", "models.yaml", "keys.yaml")
	require.Equal(t, 4, strings.Count(out, "unchanged\n"), out)
}

func TestConfigValidateReportsEverythingAtOnceWithoutAGateway(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("a.yaml",
		[]byte("kind: Provider\nname: a\nvendor: acme\nendpoint: x\n---\nkind: Nothing\n"), 0o600))
	require.NoError(t, os.WriteFile("b.yaml",
		[]byte("kind: Gateway\nname: g\nport: 1\n---\nkind: Gateway\nname: h\nport: 1\n"), 0o600))
	c := &cli{}
	_, errOut := c.run(t, exitFailed, "config", "validate", "a.yaml", "b.yaml")
	for _, want := range []string{
		"a.yaml:3:1: Provider a: vendor:", "a.yaml:4:1: Provider a: endpoint:", "a.yaml:6:1: kind:",
		"b.yaml:7:1: Gateway h: port: port 1 is already taken",
	} {
		require.Contains(t, errOut, want)
	}
	require.NotContains(t, errOut, "did you mean")
	require.NoError(t, os.WriteFile("c.yaml", []byte("kind: Provider\nname: a\nvendor: antropic\n"), 0o600))
	_, errOut = c.run(t, exitFailed, "config", "validate", "c.yaml")
	require.Contains(t, errOut, "c.yaml:3:1: Provider a: vendor: ")
	require.Contains(t, errOut, "; did you mean anthropic?")
	_, errOut = c.run(t, exitUsage, "config", "validate")
	require.Contains(t, errOut, "at least one file")
	_, errOut = c.run(t, exitFailed, "config", "validate", "missing.yaml")
	require.Contains(t, errOut, "missing.yaml")
}

func TestConfigReadsTheStandardInput(t *testing.T) {
	c := newCLI(t)
	c.stdin(t, files)
	out, _ := c.run(t, exitOK, "config", "apply", "-f", "-")
	require.Contains(t, out, "Model team/best created")
}

func TestFindingTheGateway(t *testing.T) {
	c := newCLI(t)
	require.NoError(t, os.Rename("data", "elsewhere"))
	_, errOut := c.run(t, exitFailed, "config", "get", "keys")
	require.Contains(t, errOut, "--data or --server")
	c.run(t, exitOK, "config", "get", "keys", "--data", "elsewhere")
	_, errOut = c.run(t, exitFailed, "config", "get", "keys", "--server", c.url)
	require.Contains(t, errOut, "$MODELGATE_TOKEN")
	c.run(t, exitOK, "config", "get", "keys", "--server", c.url, "--token", adminToken)
	_, errOut = c.run(t, exitFailed, "config", "get", "keys", "--server", c.url, "--token", "wrong")
	require.Contains(t, errOut, "Send an admin token")
	require.NoError(t, os.WriteFile("token", []byte(adminToken+"\n"), 0o600))
	c.run(t, exitOK, "config", "get", "keys", "--server", c.url, "--token-file", "token")
	_, errOut = c.run(t, exitFailed, "config", "get", "keys", "--server", c.url, "--token-file", "nowhere")
	require.Contains(t, errOut, "reading the admin token")
	t.Run("from the environment, as in a pod", func(t *testing.T) {
		t.Setenv("MODELGATE_SERVER", c.url)
		t.Setenv("MODELGATE_TOKEN_FILE", "token")
		c.run(t, exitOK, "config", "get", "keys")
	})
	t.Setenv("MODELGATE_TOKEN", adminToken)
	c.run(t, exitOK, "config", "get", "keys", "--server", c.url+"/")
	_, errOut = c.run(t, exitUsage, "config", "get", "things", "--server", c.url)
	require.Contains(t, errOut, `there is no kind "things"`)
}

func TestKeyLivesFromCreateToRevoke(t *testing.T) {
	c := newCLI(t)
	out, _ := c.run(t, exitOK, "key", "create", "--data", "data", "--name", "CI", "--organization", "org",
		"--create-missing", "--model", "openai/*", "--model", "echo/echo", "--expires", "720h", "-o", "json")
	require.Equal(t, 1, strings.Count(out, "\n"), "one line")
	var made map[string]string
	require.NoError(t, json.Unmarshal([]byte(out), &made))
	require.Len(t, made, 2)
	require.True(t, auth.CheckFormat(made["key"]))

	entry, err := c.store.Get(t.Context(), configv1.KindOf((*configv1.Key)(nil)), made["id"])
	require.NoError(t, err)
	hash := c.hasher.Hash(made["key"])
	require.Equal(t, hash[:], entry.Object.(*configv1.Key).GetHash())

	out, _ = c.run(t, exitOK, "key", "list")
	require.Contains(t, out, made["id"])
	require.Contains(t, out, "openai/*, echo/echo")
	require.Contains(t, out, "..."+made["key"][len(made["key"])-4:])
	require.Contains(t, out, "active")
	require.NotContains(t, out, made["key"])

	out, _ = c.run(t, exitOK, "key", "revoke", made["id"])
	require.Equal(t, "Key "+made["id"]+" revoked\n", out)
	out, _ = c.run(t, exitOK, "key", "list", "-o", "name")
	require.Empty(t, out)
	_, errOut := c.run(t, exitFailed, "key", "revoke", made["id"])
	require.Contains(t, errOut, "no such object")

	out, _ = c.run(t, exitOK, "key", "create", "--name", "for people")
	require.Contains(t, out, "Keep the key now")
	_, errOut = c.run(t, exitUsage, "key", "create", "--name", "x", "--expires", "soon")
	require.Contains(t, errOut, "--expires")
	_, errOut = c.run(t, exitFailed, "key", "create", "--name", "x", "--expires", "2001-01-01T00:00:00Z")
	require.Contains(t, errOut, "future")
	c.run(t, exitUsage, "key", "create")
}

func TestExportIsWhatPruneMakesTheInstallation(t *testing.T) {
	c := newCLI(t)
	c.write(t, "gw.yaml", strings.Replace(files, "vendor: openai\n", "vendor: openai\ncredential: {value: sk-upstream}\n", 1))
	c.run(t, exitOK, "config", "apply", "gw.yaml")
	out, _ := c.run(t, exitOK, "config", "export")
	require.NotContains(t, out, "sk-upstream")
	const first = "---\n# yaml-language-server: $schema=modelgate.schema.json\n"
	require.Equal(t, 2, strings.Count(out, first))
	require.Contains(t, out, first+"# [redacted]: the stored credential. Elsewhere, give a value, env, file, vault, secret_manager or workload_identity.\nkind: Provider\n")
	c.write(t, "all.yaml", out)
	said, _ := c.run(t, exitOK, "config", "apply", "all.yaml", "--prune")
	require.Equal(t, "Provider mine unchanged\nModel team/best unchanged\n", said)
	listed, _ := c.run(t, exitOK, "config", "export", "-o", "json")
	require.Contains(t, listed, `[{"kind":"Provider","name":"mine"`)

	provider, _, _ := strings.Cut(files, "---")
	c.write(t, "gw.yaml", provider+"---\nkind: Model\nname: other\ntargets: [{provider: mine, model: a}]\n")
	said, _ = c.run(t, exitOK, "config", "apply", "gw.yaml", "--prune", "--dry-run")
	require.Equal(t, "Provider mine updated\nModel other created\nModel team/best deleted\n"+
		"This was a dry run: nothing was stored.\n", said)
	diff, _ := c.run(t, exitFailed, "config", "diff", "gw.yaml", "--prune")
	require.Contains(t, diff, "--- stored Model team/best")
	c.run(t, exitOK, "config", "get", "model", "team/best")
	c.run(t, exitOK, "config", "apply", "gw.yaml", "--prune")
	c.run(t, exitFailed, "config", "get", "model", "team/best")

	c.write(t, "gw.yaml", provider)
	_, refused := c.run(t, exitFailed, "config", "apply", "gw.yaml", "--prune")
	require.Contains(t, refused, "every object of the kind Model. If you want that, use prune=all (--yes).")
	said, _ = c.run(t, exitOK, "config", "apply", "gw.yaml", "--prune", "--yes")
	require.Equal(t, "Provider mine unchanged\nModel other deleted\n", said)
	_, misused := c.run(t, exitUsage, "config", "apply", "gw.yaml", "--yes")
	require.Contains(t, misused, "--yes has a meaning only with --prune")
}

func TestSchemaIsPrintedWithoutAGateway(t *testing.T) {
	t.Chdir(t.TempDir())
	c := newCLI(t)
	all, _ := c.run(t, exitOK, "config", "schema")
	one, _ := c.run(t, exitOK, "config", "schema", "providers")
	require.Contains(t, all, `"AlertRule"`)
	require.NotContains(t, one, `"AlertRule"`)
	require.True(t, json.Valid([]byte(all)) && json.Valid([]byte(one)))
	_, errOut := c.run(t, exitUsage, "config", "schema", "provider-s")
	require.Contains(t, errOut, "there is no kind")
}
