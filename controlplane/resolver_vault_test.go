package controlplane

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/secretstore"
	"github.com/modelgate/modelgate/controlplane/vault"
	"github.com/modelgate/modelgate/controlplane/vault/vaulttest"
	"github.com/modelgate/modelgate/envoy"
)

func fromVault(path, field string) *configv1.Credential {
	return &configv1.Credential{Source: &configv1.Credential_Vault{Vault: &configv1.VaultSecret{Path: path,
		Field: field}}}
}

// reading returns what reads the secrets of a Vault, often.
func reading(t *testing.T, v *vaulttest.Vault) *secretstore.Follower {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(vaulttest.Token), 0o600))
	f, err := vault.New(vault.Options{Address: v.URL, TokenFile: file, Interval: 20 * time.Millisecond,
		Log: zap.NewNop()})
	require.NoError(t, err)
	return f
}

func (p *plane) says(kind, name, message string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return strings.Contains(p.ObjectError(kind, name), message) }, 10*time.Second,
		10*time.Millisecond, "%s %s: %s", kind, name, p.ObjectError(kind, name))
}

func sealedVault(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(`{"errors":["Vault is sealed"]}`))
}

func TestASecretInVaultReachesTheDataPlaneAndIsFollowed(t *testing.T) {
	v := vaulttest.Serve(t)
	v.Put("secret/data/a", map[string]any{"key": "sk-1", "account": "service account", "n": 1})
	v.Put("kv/foreign", map[string]any{"key": "of another"})
	cloudy := openai("cloudy", fromVault("secret/data/a", "account"))
	cloudy.Vendor = "cloud"
	foreign := openai("foreign", fromVault("kv/foreign", "key"))
	p := startPlaneWith(t, reading(t, v), openai("a", fromVault("secret/data/a", "key")), cloudy, foreign,
		openai("none", fromVault("secret/data/a", "none")), openai("number", fromVault("secret/data/a", "n")),
		openai("missing", fromVault("secret/data/missing", "key")))
	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool { return s.has["a"] != nil })
	require.Equal(t, "sk-1", s.has["a"].GetCredential(), "from the first configuration on")
	require.Nil(t, s.has["a"].GetProvider().GetCredential())
	s.await(func() bool { return s.has["cloudy"].GetCredential() == "token for service account" })
	p.says("Provider", "none", "credential: secret/data/a: the secret has no field none")
	p.says("Provider", "number", "credential: secret/data/a: the field n is not a text")
	p.says("Provider", "missing", "credential: secret/data/missing: Vault answers 404")
	p.says("Provider", "foreign", "credential.vault: kv/foreign is not among the secrets in Vault")
	reads, _, _ := v.Counts("kv/foreign")
	require.Zero(t, reads, "what may not be named is not even read")
	require.Len(t, s.has, 2)

	v.Put("secret/data/a", map[string]any{"key": "sk-2", "account": "other account"})
	s.await(func() bool {
		return s.has["a"].GetCredential() == "sk-2" && s.has["cloudy"].GetCredential() == "token for other account"
	})
	require.Empty(t, p.ObjectError("Provider", "a"))
	v.Put("secret/data/missing", map[string]any{"key": "sk-3"})
	s.await(func() bool { return s.has["missing"].GetCredential() == "sk-3" })

	v.Put("secret/data/hook", map[string]any{"key": "whsec_Zmlyc3RmaXJzdGZpcnN0Zmlyc3RmaXJzdA=="})
	p.put(&configv1.Webhook{Name: "w", Url: "https://hooks.test/", Secret: fromVault("secret/data/hook", "key")})
	hooks := subscribe[*configv1.Webhook](p, envoy.RoleJobs)
	hooks.await(func() bool { return strings.HasPrefix(hooks.has["w"].GetSecret().GetValue(), "whsec_") })
}

// An object does not have an error first, of which whoever has applied it is told.
func TestASecretThatIsNewIsWaitedFor(t *testing.T) {
	v := vaulttest.Serve(t)
	for _, path := range []string{"secret/data/a", "secret/data/b"} {
		v.Put(path, map[string]any{"key": "sk-1"})
	}
	p := startPlaneWith(t, reading(t, v), openai("a", fromVault("secret/data/a", "key")))
	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool { return s.has["a"] != nil })
	p.put(openai("b", fromVault("secret/data/b", "key")))
	s.await(func() bool { return s.has["b"] != nil })
	require.False(t, s.has["b"].GetWaiting())
	require.Equal(t, "sk-1", s.has["b"].GetCredential())

	// But not for long: another change does not wait for a Vault that hangs.
	v.Answer(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p.put(openai("c", fromVault("secret/data/c", "key")))
	p.put(openai("d", nil))
	s.await(func() bool { return s.has["d"] != nil })
	require.True(t, s.has["c"].GetWaiting())
}

// As with a file: an object whose secret is gone has an error, and stays as it was.
func TestASecretThatIsGoneFromVaultLeavesTheProviderAsItWas(t *testing.T) {
	v := vaulttest.Serve(t)
	v.Put("secret/data/a", map[string]any{"key": "sk-1"})
	v.Put("secret/data/b", map[string]any{"key": "sk-1"})
	p := startPlaneWith(t, reading(t, v), openai("a", fromVault("secret/data/a", "key")),
		openai("b", fromVault("secret/data/b", "key")))
	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool { return len(s.has) == 2 })
	v.Delete("secret/data/a")
	v.Deny("secret/data/b", true)
	p.says("Provider", "a", "404")
	p.says("Provider", "b", "403")
	p.put(openai("next", nil))
	s.await(func() bool { return s.has["next"] != nil })
	require.Equal(t, "sk-1", s.has["a"].GetCredential())
	require.Equal(t, "sk-1", s.has["b"].GetCredential())
	v.Put("secret/data/a", map[string]any{"key": "sk-2"})
	s.await(func() bool { return s.has["a"].GetCredential() == "sk-2" })
}

func TestASecretStaysInForceWhileVaultIsSealed(t *testing.T) {
	v := vaulttest.Serve(t)
	v.Put("secret/data/a", map[string]any{"key": "sk-1"})
	p := startPlaneWith(t, reading(t, v), openai("a", fromVault("secret/data/a", "key")))
	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool { return s.has["a"] != nil })
	v.Answer(sealedVault)
	require.Eventually(t, func() bool { return p.vault.Stale() == 1 && p.vault.Failures() > 1 }, 10*time.Second,
		10*time.Millisecond)
	moved := openai("a", fromVault("secret/data/a", "key"))
	moved.Models = []string{"m"}
	p.put(moved)
	s.await(func() bool { return len(s.has["a"].GetProvider().GetModels()) == 1 })
	require.Equal(t, "sk-1", s.has["a"].GetCredential())
	require.Empty(t, p.ObjectError("Provider", "a"))
}

// Where Vault is away from the start, its providers wait, so that their models are 503 and not 404, and others serve.
func TestProvidersWaitForVault(t *testing.T) {
	v := vaulttest.Serve(t)
	v.Put("secret/data/a", map[string]any{"key": "sk-1"})
	v.Answer(sealedVault)
	p := startPlaneWith(t, reading(t, v), openai("a", fromVault("secret/data/a", "key")), openai("b", nil))
	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool { return len(s.has) == 2 })
	require.True(t, s.has["a"].GetWaiting())
	require.Empty(t, s.has["a"].GetCredential())
	p.says("Provider", "a", "secret/data/a: it has not been read yet: Vault answers 503: Vault is sealed")
	v.Answer(nil)
	s.await(func() bool { return s.has["a"].GetCredential() == "sk-1" })
	require.False(t, s.has["a"].GetWaiting())
	require.Eventually(t, func() bool { return p.ObjectError("Provider", "a") == "" }, 10*time.Second,
		10*time.Millisecond)
}

func TestNothingIsPublishedBeforeVaultWasAsked(t *testing.T) {
	v := vaulttest.Serve(t)
	v.Put("secret/data/a", map[string]any{"key": "sk-1"})
	asked, release := make(chan struct{}, 8), make(chan struct{})
	v.Answer(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-release
		sealedVault(w, r)
	})
	p := startPlaneWith(t, reading(t, v), openai("a", fromVault("secret/data/a", "key")))
	<-asked
	require.Error(t, p.Ready())
	v.Answer(nil)
	close(release)
	require.Eventually(t, func() bool { return p.Ready() == nil }, 10*time.Second, 10*time.Millisecond)
}

func TestWithoutVaultItsSecretsAreErrors(t *testing.T) {
	p := startPlane(t, openai("a", fromVault("secret/data/a", "key")), openai("b", nil))
	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool { return s.has["b"] != nil })
	require.NotContains(t, s.has, "a")
	p.says("Provider", "a", "credential: the control plane knows no Vault: start it with --vault-addr")
}

// What is read when it is used, too: the credentials of receivers of alerts, and of a provider that is tested.
func TestSecretsInVaultAreThereWhenTheyAreUsed(t *testing.T) {
	v := vaulttest.Serve(t)
	v.Put("secret/data/a", map[string]any{"key": "sk-1"})
	receiver := &configv1.AlertReceiver{Name: "r", Credential: fromVault("secret/data/a", "key"),
		Webhook: &configv1.AlertWebhook{Url: "https://hooks.test/"}}
	off := openai("off", fromVault("secret/data/a", "key"))
	off.Disabled = true
	p := startPlaneWith(t, reading(t, v), receiver, off)
	require.Eventually(t, func() bool {
		got, err := p.ReceiverCredential(receiver)
		return err == nil && got.Reveal() == "sk-1"
	}, 10*time.Second, 10*time.Millisecond)
	resolved, err := p.ownResolver().provider(openai("off", fromVault("secret/data/a", "key")))
	require.NoError(t, err)
	require.Equal(t, "sk-1", resolved.GetCredential(), "it is tested before it is enabled")
	elsewhere := openai("off", fromVault("kv/foreign", "key"))
	found, err := p.TestProvider(t.Context(), elsewhere)
	require.NoError(t, err)
	require.Contains(t, found.Message, "--credential-vault")
}
