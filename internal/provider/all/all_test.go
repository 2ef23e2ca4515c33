package all

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider"
)

func TestTheListIsFresh(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.go")
	out, err := exec.Command("go", "run", "gen.go", "-o", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	got, err := os.ReadFile("list.go")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run go generate ./internal/provider/all")
}

func TestEveryVendorIsComplete(t *testing.T) {
	providers := Providers()
	require.Len(t, providers, len(list()), "two vendors have the same name")
	for name, p := range providers {
		t.Run(name, func(t *testing.T) {
			require.DirExists(t, filepath.Join("..", name), "a vendor is named like its folder")
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
