package adminflags

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLogins(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", os.Getenv("XDG_CONFIG_HOME"))
	good := LoginEntry{Token: "mgses_a", Account: "ada", ExpiresAt: time.Now().Add(time.Hour)}
	require.NoError(t, ReadLogins().Put("https://a.example/", good))
	require.NoError(t, ReadLogins().Put("https://b.example", LoginEntry{Token: "mgses_b", ExpiresAt: time.Now()}))

	f := AdminFlags{Data: t.TempDir(), Server: "https://a.example"}
	token, err := f.token()
	require.NoError(t, err)
	require.Equal(t, "mgses_a", token)
	f.Token = "mgadm_x"
	token, err = f.token()
	require.NoError(t, err)
	require.Equal(t, "mgadm_x", token, "what is given goes first")
	f = AdminFlags{Data: f.Data, Server: "https://b.example"}
	_, err = f.token()
	require.ErrorContains(t, err, "your sign-in has ended. Sign in again with: modelgate login --server https://b.example")
	f.Server = "https://c.example"
	_, err = f.token()
	require.ErrorContains(t, err, "modelgate login --server https://c.example", "a sign-in is for its own gateway")

	file := ReadLogins().path
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, ReadLogins().Put("https://a.example", LoginEntry{}))
	require.NotContains(t, ReadLogins().Entries, "https://a.example")
	left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	require.NoError(t, err)
	require.Equal(t, []string{file}, left)

	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	_, err = f.token()
	require.ErrorContains(t, err, "reading the sign-ins in "+file)
	require.ErrorContains(t, ReadLogins().Put("https://a.example", good), "reading the sign-ins", "nothing is lost")
}
