package configv1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestNamesHaveOneForm(t *testing.T) {
	for written, name := range map[string]string{
		"ann": "ann", "Ann@Example.COM": "ann@example.com", "a_b+c%d": "a_b+c%d", "7": "7",
	} {
		got, err := configv1.AccountName(written)
		require.NoError(t, err)
		require.Equal(t, name, got)
	}
	for _, written := range []string{
		"", "\u212aim@corp.example", "k\u0130m", "o\u017fcar", "ann\u00e9", "ann\u0000", "ann ", " ann", "ann\n", "@ann",
		"\uff41nn", "ann\u200b", "a/b", "\u0430nn", "\xff", strings.Repeat("a", 129),
	} {
		_, err := configv1.AccountName(written)
		require.ErrorContains(t, err, "letters of ASCII", "%+q", written)
	}
	require.Equal(t, "\u212aelvin \u0130 \u017f", configv1.Fold("\u212aELVIN \u0130 \u017f"),
		"other letters stay as they are")
}

func TestIssuersAreComparedInOneForm(t *testing.T) {
	const issuer = "https://idp.example/realms/a"
	for _, same := range []string{issuer, issuer + "/", "HTTPS://IdP.example/realms/a"} {
		require.True(t, configv1.SameIssuer(issuer, same), same)
	}
	for _, other := range []string{"", "https://idp.example/realms/A", "https://idp.example:8443/realms/a",
		"http://idp.example/realms/a", "https://idp.example/realms", "https://\u212adp.example/realms/a"} {
		require.False(t, configv1.SameIssuer(issuer, other), other)
	}
	require.False(t, configv1.SameIssuer("", ""+"https://x"))
}
