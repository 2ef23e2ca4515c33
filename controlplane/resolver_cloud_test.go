package controlplane

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/secretstore"
	"github.com/modelgate/modelgate/envoy"
)

// A manager is a secret manager in the process.
type manager struct {
	mu    sync.Mutex // guards what follows
	texts map[string]string
	away  bool
	asked map[string]bool
}

func (m *manager) Read(_ context.Context, name string) (secretstore.Found, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[name] = true
	text, ok := m.texts[name]
	switch {
	case m.away:
		return secretstore.Found{}, errors.New("the manager is away")
	case !ok:
		return secretstore.Found{}, &secretstore.RefusedError{Err: errors.New("the manager has none")}
	}
	return secretstore.Found{Fields: secretstore.Text(text)}, nil
}

func (*manager) Tend(context.Context) bool { return false }

func (m *manager) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func managed(name, field string) *configv1.Credential {
	return &configv1.Credential{Source: &configv1.Credential_SecretManager{
		SecretManager: &configv1.ManagedSecret{Name: name, Field: field}}}
}

func TestASecretInAManagerReachesTheDataPlaneAndIsFollowed(t *testing.T) {
	m := &manager{texts: map[string]string{"google/acme/a": "sk-1", "google/acme/b": `{"key":"sk-b"}`,
		"google/other/a": "of another"}, asked: map[string]bool{}}
	p := startPlaneReading(t, nil, secretstore.New(secretstore.Options{Store: m, Interval: 20 * time.Millisecond,
		Log: zap.NewNop()}), openai("a", managed("google/acme/a", "")), openai("b", managed("google/acme/b", "key")),
		openai("foreign", managed("google/other/a", "")), openai("missing", managed("google/acme/none", "")))
	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool { return s.has["a"] != nil && s.has["b"] != nil })
	require.Equal(t, "sk-1", s.has["a"].GetCredential(), "from the first configuration on")
	require.Equal(t, "sk-b", s.has["b"].GetCredential())
	p.says("Provider", "foreign", "google/other/a is not among the secrets in secret managers")
	p.says("Provider", "missing", "credential: google/acme/none: the manager has none")
	m.set(func() { m.texts["google/acme/a"] = "sk-2" })
	s.await(func() bool { return s.has["a"].GetCredential() == "sk-2" })

	m.set(func() {
		require.False(t, m.asked["google/other/a"], "what may not be named is not even read")
		m.away = true
		m.texts["google/acme/a"] = "sk-3"
	})
	require.Eventually(t, func() bool { return p.managers.Stale() == 2 }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, "sk-2", s.has["a"].GetCredential())
	m.set(func() { m.away = false })
	s.await(func() bool { return s.has["a"].GetCredential() == "sk-3" })

	// The credentials of a checker and of a response cache are read, too.
	p.put(&configv1.ResponseCache{Name: "c", Similar: &configv1.SimilarAnswers{Url: "https://checker.test/", Model: "m"},
		Credential: managed("google/acme/b", "key")})
	p.put(&configv1.Checker{Name: "c", Type: configv1.CheckerType_WEBHOOK, Url: "https://checker.test/",
		Credential: managed("google/acme/b", "key")})
	settings := subscribe[*configv1.Settings](p, envoy.RoleExtProc)
	settings.await(func() bool {
		for _, has := range settings.has {
			if len(has.GetCheckers()) == 1 && has.GetCheckers()[0].GetCredential().GetValue() == "sk-b" &&
				len(has.GetResponseCaches()) == 1 && has.GetResponseCaches()[0].GetCredential().GetValue() == "sk-b" {
				return true
			}
		}
		return false
	})
}

func TestAProviderIsSignedInToWithTheIdentityOfTheProcess(t *testing.T) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "AKIAOWN", "AWS_SECRET_ACCESS_KEY": "s",
		"AWS_CA_BUNDLE": "", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "HOME": t.TempDir(),
		"AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	as := func(who string) *configv1.Credential {
		return &configv1.Credential{Source: &configv1.Credential_WorkloadIdentity{
			WorkloadIdentity: &configv1.WorkloadIdentity{As: who}}}
	}
	own, other, wrong := openai("own", as("")), openai("other", as("arn:aws:iam::1:role/x")), openai("wrong", as(""))
	own.Vendor, other.Vendor = "amazon", "amazon"
	p := startPlane(t, own, other, wrong)
	s := subscribe[*configv1.ResolvedProvider](p, envoy.RoleExtProc)
	s.await(func() bool { return strings.Contains(s.has["own"].GetCredential(), `"AccessKeyId":"AKIAOWN"`) })
	require.Nil(t, s.has["own"].GetProvider().GetCredential().GetSource())
	p.says("Provider", "other", "aws:arn:aws:iam::1:role/x is not among the identities")
	p.says("Provider", "wrong", "is for providers of the vendors bedrock, vertex and azure alone")
}
