package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
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
