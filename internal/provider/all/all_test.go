package all

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/translate"
)

func TestGeneratedFilesAreFresh(t *testing.T) {
	for file, program := range map[string]string{
		"list.go":                    "../../listgen -package all -folders internal/provider/vendors -function Provider",
		"../../../docs/providers.md": "gendocs.go",
		"../../../README.md":         "gendocs.go -readme",
	} {
		t.Run(file, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), filepath.Base(file))
			words := append(append([]string{"run"}, strings.Fields(program)...), "-o", path)
			out, err := exec.Command("go", words...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			got, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got), "run go generate ./internal/provider/all")
		})
	}
}

func TestEveryVendorIsComplete(t *testing.T) {
	providers := Providers()
	require.Len(t, providers, len(list()), "two vendors have the same name")
	for name, p := range providers {
		t.Run(name, func(t *testing.T) {
			require.DirExists(t, filepath.Join("../vendors", name), "a vendor is named like its folder")
			require.NotNil(t, p.Sign)
			require.NotNil(t, p.Chat)
			if p.DefaultEndpoint != "" {
				_, err := provider.ParseEndpoint(p.DefaultEndpoint)
				require.NoError(t, err)
			}
			if p.CredentialEnv != "" {
				require.NotEmpty(t, p.CredentialHeaders, "a credential travels in some header")
			}
		})
	}
	for _, name := range []string{"anthropic", "echo", "openai"} {
		require.Contains(t, providers, name)
	}
}

// TestEveryVendorIsTested holds the tests of every vendor to the same: one line for the suite, one for the fuzz
// targets, and cases of every kind of answer.
func TestEveryVendorIsTested(t *testing.T) {
	text, err := os.ReadFile("../../../docs/providers.md")
	require.NoError(t, err)
	page := string(text)
	for name, p := range Providers() {
		if name == "echo" { // the gateway's own, which can neither fail nor call tools
			continue
		}
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join("../vendors", name)
			var lacks []string
			require.Contains(t, page, "["+name+"](../internal/provider/vendors/"+name+"/README.md)")
			if _, err := os.Stat(filepath.Join(folder, "README.md")); err != nil {
				lacks = append(lacks, "README.md, which says what is lossy")
			}
			tests := goTests(t, folder)
			for _, call := range []string{"providertest.Run(t, Provider())", "providertest.Fuzz(f, Provider())"} {
				if !strings.Contains(tests, call) {
					lacks = append(lacks, call)
				}
			}
			found := casesOf(t, folder)
			for _, kind := range []string{"a whole answer", "a stream", "a stream with calls", "an error", "usage"} {
				if !found[kind] && (kind != "a stream with calls" || takesTools(t, p)) {
					lacks = append(lacks, "a case of "+kind)
				}
			}
			require.Empty(t, lacks)
		})
	}
}

// goTests returns the text of all test files of a folder.
func goTests(t *testing.T, folder string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	require.NoError(t, err)
	var all []byte
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		all = append(all, text...)
	}
	return string(all)
}

// takesTools reports whether a vendor takes a request with tools.
func takesTools(t *testing.T, p provider.Provider) bool {
	t.Helper()
	r, err := translate.Parse(p, translate.Chat,
		[]byte(
			`{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]}`))
	require.NoError(t, err)
	_, _, err = r.Encode(provider.Target{Config: translate.Complete(p, &configv1.Provider{}), Model: "m"})
	return err == nil
}

// casesOf returns the kinds of answers of which a folder has cases.
func casesOf(t *testing.T, folder string) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "testdata", "*.txtar"))
	require.NoError(t, err)
	found := map[string]bool{}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		require.NoError(t, err)
		sections := map[string]string{}
		for _, f := range archive.Files {
			sections[f.Name] = string(f.Data)
		}
		request, answer := sections["request.json"], sections["client-response"]
		ok := strings.HasPrefix(answer, "200\n")
		streamed := ok && gjson.Get(request, "stream").Bool()
		chat := sections["endpoint"] == ""
		found["a whole answer"] = found["a whole answer"] || chat && ok && !streamed
		found["a stream"] = found["a stream"] || chat && streamed
		found["a stream with calls"] = found["a stream with calls"] || streamed &&
			strings.Contains(answer, `"tool_calls":[{`)
		found["an error"] = found["an error"] || answer != "" && !ok
		found["usage"] = found["usage"] || sections["usage"] != ""
	}
	return found
}
