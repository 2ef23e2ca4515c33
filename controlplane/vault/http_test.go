package vault_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/controlplane/secretstore"
	"github.com/modelgate/modelgate/controlplane/vault"
	"github.com/modelgate/modelgate/controlplane/vault/vaulttest"
)

// run runs a Follower of secrets of the Vault at an address, until the test ends.
func run(t *testing.T, address, token string, paths ...string) *secretstore.Follower {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
	f, err := vault.New(vault.Options{Address: address, TokenFile: file, Interval: 20 * time.Millisecond,
		Log: zap.NewNop()})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		f.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	all := map[string]bool{}
	for _, p := range paths {
		all[p] = true
	}
	f.Follow(all)
	return f
}

// await returns once a field has a value.
func await(t *testing.T, f *secretstore.Follower, path, want string) {
	t.Helper()
	require.Eventually(t, func() bool {
		v, err := f.Get(path, "key")
		return err == nil && v.Reveal() == want
	}, 10*time.Second, 5*time.Millisecond, "%s is %s", path, want)
}

func TestOverHTTP(t *testing.T) {
	v := vaulttest.Serve(t)
	v.Put("secret/data/a", map[string]any{"key": "sk-1"})
	f := run(t, v.URL, vaulttest.Token, "secret/data/a")
	await(t, f, "secret/data/a", "sk-1")

	// A redirect within the same Vault is followed, and one to another host is not.
	elsewhere := vaulttest.Serve(t)
	elsewhere.Put("secret/data/a", map[string]any{"key": "stolen"})
	v.Answer(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	require.Eventually(t, func() bool { return f.Stale() == 1 }, 10*time.Second, 5*time.Millisecond)
	reads, _, _ := elsewhere.Counts("secret/data/a")
	require.Zero(t, reads)
	v.Put("secret/data/a", map[string]any{"key": "sk-2"})
	v.Answer(func(w http.ResponseWriter, r *http.Request) {
		v.Answer(nil)
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
	})
	await(t, f, "secret/data/a", "sk-2")
}

// What an error says is the same each time: the port of a connection is not in it.
func TestAVaultThatIsNotThere(t *testing.T) {
	f := run(t, "http://127.0.0.1:1", "hvs.x", "secret/data/a")
	require.Eventually(t, f.Settled, 10*time.Second, 5*time.Millisecond)
	_, err := f.Get("secret/data/a", "key")
	require.ErrorIs(t, err, secretstore.ErrUnread)
	require.EqualError(t, err, "secret/data/a: it has not been read yet: asking Vault at 127.0.0.1:1: connect: connection refused")
	require.False(t, strings.Contains(err.Error(), "hvs."))
}
