package serve

import (
	"context"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/controlplane/vault/vaulttest"
)

func TestFlagsOfVaultGoTogether(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(ca, []byte("none"), 0o600))
	for want, flags := range map[string]credentialFlags{
		"--credential-vault names secrets in Vault, and needs --vault-addr": {CredentialVault: []string{"secret/data/a=h"}},
		"need --vault-addr": {Vault: vaultFlags{Role: "r"}},
		"--vault-addr needs one of --vault-token-file and --vault-role": {
			Vault: vaultFlags{Addr: "https://v.test", Role: "r", TokenFile: "f", Auth: "kubernetes"}},
		"needs one of":          {Vault: vaultFlags{Addr: "https://v.test", Auth: "kubernetes"}},
		"--vault-addr: it must": {Vault: vaultFlags{Addr: "http://v.test", Role: "r", Auth: "kubernetes"}},
		"--vault-auth":          {Vault: vaultFlags{Addr: "https://v.test", Role: "r", Auth: "../sys"}},
		"--credential-vault /secret": {CredentialVault: []string{"/secret/data/a"},
			Vault: vaultFlags{Addr: "https://v.test", Role: "r", Auth: "kubernetes"}},
	} {
		_, err := flags.allowed()
		require.ErrorContains(t, err, want)
	}
	good := credentialFlags{CredentialVault: []string{"secret/data/a=h.test"},
		Vault: vaultFlags{Addr: "https://v.test", Role: "r", Auth: "k8s/prod"}}
	_, err := good.allowed()
	require.NoError(t, err)
	follower, err := good.Vault.follower(zap.NewNop())
	require.NoError(t, err)
	require.NotNil(t, follower)
	good.Vault.CA = ca
	_, err = good.Vault.follower(zap.NewNop())
	require.ErrorContains(t, err, "contains no certificate")
	follower, err = vaultFlags{}.follower(zap.NewNop())
	require.NoError(t, err)
	require.Nil(t, follower)
}

func TestVaultIsVerifiedByItsOwnAuthorities(t *testing.T) {
	v := vaulttest.New()
	v.Put("secret/data/a", map[string]any{"key": "sk-1"})
	v.Role("gateway", "the-jwt", 3600, 0)
	server := httptest.NewTLSServer(v)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		return filepath.Join(dir, name)
	}
	flags := vaultFlags{Addr: server.URL, Role: "gateway", Auth: "kubernetes", JWTFile: write("jwt", []byte("the-jwt"))}
	read := func(flags vaultFlags) (string, error) {
		f, err := flags.follower(zap.NewNop())
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			f.Run(ctx)
			close(ended)
		}()
		f.Follow(map[string]bool{"secret/data/a": true})
		require.Eventually(t, f.Settled, 10*time.Second, 5*time.Millisecond)
		stop()
		<-ended
		got, err := f.Get("secret/data/a", "key")
		return got.Reveal(), err
	}
	_, err := read(flags)
	require.ErrorContains(t, err, "certificate")
	flags.CA = write("ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	got, err := read(flags)
	require.NoError(t, err)
	require.Equal(t, "sk-1", got)
}
