package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// program writes a script that answers --version as an Envoy of that version does.
func program(t *testing.T, dir, version string) string {
	t.Helper()
	path := filepath.Join(dir, "envoy")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	script := "#!/bin/sh\necho\necho \"envoy  version: 9e5580933739775e8bce696a57a2e1bc99368f23/" + version +
		"/Clean/RELEASE/BoringSSL\"\n"
	require.NoError(t, os.WriteFile(path, []byte(script), 0o755))
	return path
}

func TestFindTakesTheFirstPlaceThatIsNamed(t *testing.T) {
	dir := t.TempDir()
	named := program(t, filepath.Join(dir, "named"), "1.40.0")
	variable := program(t, filepath.Join(dir, "variable"), "1.40.2")
	program(t, filepath.Join(dir, "path"), "1.40.0")
	working := program(t, filepath.Join(dir, "work", "bin"), "1.41.0")
	t.Chdir(filepath.Join(dir, "work"))
	systemPath := os.Getenv("PATH")
	t.Setenv("PATH", filepath.Join(dir, "path")+":"+systemPath)
	t.Setenv(EnvBinary, variable)

	found, err := Find(t.Context(), named)
	require.NoError(t, err)
	require.Equal(t, named, found)

	found, err = Find(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, variable, found)

	t.Setenv(EnvBinary, "")
	found, err = Find(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "path", "envoy"), found)

	program(t, filepath.Join(dir, "path"), "1.30.0")
	found, err = Find(t.Context(), "")
	require.NoError(t, err, "an old one that no one named is passed over")
	require.Equal(t, working, found)
}

func TestFindRefuses(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv(EnvBinary, "")
	// The scripts need a shell, and nothing else of the PATH.
	t.Setenv("PATH", "/bin")

	old := program(t, filepath.Join(dir, "old"), "1.38.3")
	_, err := Find(t.Context(), old)
	require.ErrorContains(t, err, "is Envoy 1.38.3; 1.40.0 or newer is needed")

	_, err = Find(t.Context(), filepath.Join(dir, "missing"))
	require.ErrorContains(t, err, "missing")

	other := filepath.Join(dir, "other")
	require.NoError(t, os.WriteFile(other, []byte("#!/bin/sh\necho GNU ls 9.1\n"), 0o755))
	_, err = Find(t.Context(), other)
	require.ErrorContains(t, err, "does not print a version")

	_, err = Find(t.Context(), "")
	for _, way := range []string{"make envoy", "func-e", "official image", "distribution"} {
		require.ErrorContains(t, err, way)
	}
}

func TestVersionsAreComparedAsNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"1.38.3", "1.38.4", true},
		{"1.38.4", "1.38.4", false},
		{"1.38.10", "1.38.4", false},
		{"1.9.9", "1.38.4", true},
		{"2.0.0", "1.38.4", false},
	} {
		require.Equal(t, c.want, older(c.a, c.b), "%s older than %s", c.a, c.b)
	}
}
