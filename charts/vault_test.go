package charts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheControlPlaneIsToldWhereSecretsAre(t *testing.T) {
	args := func(values map[string]any) []string {
		for _, p := range processes(t, render(t, values)) {
			if p.container.Name == "controlplane" {
				return p.container.Args
			}
		}
		require.Fail(t, "there is no control plane")
		return nil
	}
	values := form(t, "as it stands")
	for _, arg := range args(values) {
		require.NotContains(t, arg, "vault")
	}
	plane, ok := values["controlplane"].(map[string]any)
	if !ok {
		plane = map[string]any{}
		values["controlplane"] = plane
	}
	plane["vault"] = map[string]any{"addr": "https://vault.vault:8200", "role": "modelgate",
		"jwt-file": "/var/run/vault/token"}
	plane["credentialVault"] = []any{"secret/data/openai=api.openai.com", "secret/data/acme/*=*.acme.example"}
	plane["credentialSecretManager"] = []any{"aws/eu-central-1/openai=api.openai.com"}
	plane["credentialIdentity"] = []any{"aws:arn:aws:iam::123456789012:role/models"}
	require.Subset(t, args(values), []string{"--credential-secret-manager=aws/eu-central-1/openai=api.openai.com",
		"--credential-identity=aws:arn:aws:iam::123456789012:role/models"})
	require.Subset(t, args(values), []string{"--vault-addr=https://vault.vault:8200", "--vault-role=modelgate",
		"--vault-jwt-file=/var/run/vault/token", "--credential-vault=secret/data/openai=api.openai.com",
		"--credential-vault=secret/data/acme/*=*.acme.example"})
	plane["vault"] = map[string]any{"token": "hvs.x"}
	_, err := renderText(releaseName, namespace, values)
	require.Error(t, err, "a token is in a file")
}
