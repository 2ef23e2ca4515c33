package controlplane

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
)

// What etcd has already, from before the flags or past the admin API, gets nobody a credential either.
func TestWhatTheFlagsDoNotAllowIsNotResolved(t *testing.T) {
	t.Setenv("CONTROLPLANE_TEST_KEY", "from-env")
	t.Setenv("CONTROLPLANE_TEST_FOREIGN", "of-another-account")
	env := func(name string) *configv1.Credential {
		return &configv1.Credential{Source: &configv1.Credential_Env{Env: name}}
	}
	kept := openai("kept", env("CONTROLPLANE_TEST_KEY"))
	p := startPlane(t, kept, openai("foreign", env("CONTROLPLANE_TEST_FOREIGN")),
		openai("pepper", fromFile("/etc/modelgate/pepper")))
	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool { return s.has["kept"].GetCredential() == "from-env" })
	require.Len(t, s.has, 1)
	says := func(kind, name, message string) {
		t.Helper()
		require.Eventually(t, func() bool { return p.ObjectError(kind, name) != "" }, 10*time.Second, 10*time.Millisecond)
		require.Contains(t, p.ObjectError(kind, name), message)
	}
	says("Provider", "foreign",
		"credential.env: CONTROLPLANE_TEST_FOREIGN is not among the variables that the configuration may name. Start the control plane with --credential-env")
	says("Provider", "pepper", "--credential-file /etc/modelgate/pepper")

	moved := openai("kept", env("CONTROLPLANE_TEST_KEY"))
	moved.Endpoint = "unix:///run/elsewhere.sock"
	p.put(moved)
	says("Provider", "kept", "--credential-env CONTROLPLANE_TEST_KEY=unix:///run/elsewhere.sock")
	found, err := p.TestProvider(t.Context(), moved)
	require.NoError(t, err)
	require.Contains(t, found.Message, "--credential-env")
	p.put(openai("next", nil))
	s.await(func() bool { return s.has["next"] != nil })
	require.Equal(t, "http://127.0.0.1:1", s.has["kept"].GetProvider().GetEndpoint(), "it stays as it was")

	p.put(&configv1.Webhook{Name: "w", Url: "https://hooks.test", Secret: env("CONTROLPLANE_TEST_FOREIGN")})
	says("Webhook", "w", "--credential-env CONTROLPLANE_TEST_FOREIGN")
	p.put(&configv1.Certificate{Name: "c", ChainFile: "/etc/ssl/certs/ca-certificates.crt",
		PrivateKey: fromFile("/proc/self/environ")})
	says("Certificate", "c", "--credential-file /etc/ssl/certs/ca-certificates.crt")
	file := filepath.Join(t.TempDir(), "tls.crt")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	p.put(&configv1.Certificate{Name: "d", ChainFile: file, PrivateKey: fromFile("/proc/self/environ")})
	says("Certificate", "d", "private_key.file")
}
