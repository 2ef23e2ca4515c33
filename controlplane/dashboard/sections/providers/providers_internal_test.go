package providers

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestTheFormOfAProviderTakesASecretInVault(t *testing.T) {
	for typed, want := range map[string][2]string{
		" secret/data/openai#key ": {"secret/data/openai", "key"}, "a#b#c": {"a#b", "c"}, "a": {"a", ""}, "": {},
	} {
		p := &configv1.Provider{}
		require.NoError(t, readProvider(url.Values{"credential_source": {"vault"}, "credential": {typed}}, p))
		require.Equal(t, want, [2]string{p.GetCredential().GetVault().GetPath(), p.GetCredential().GetVault().GetField()})
		require.NotNil(t, p.GetCredential().GetVault(), "what is missing is an error of the object")
		if want[1] == "key" {
			require.Equal(t, "Vault, field key of secret/data/openai", credentialText(p.GetCredential()))
			require.NoError(t, readProvider(url.Values{}, p))
			require.NotNil(t, p.GetCredential(), "no change")
		}
	}
}
