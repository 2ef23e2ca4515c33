package controlplane

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/secret"
)

const probeCredential = "sk-upstream-secret"

// probing returns a control plane that does not run, with the real vendors, and a provider at a server with the
// handler.
func probing(t *testing.T, handler http.HandlerFunc) (*Server, *configv1.Provider) {
	t.Helper()
	upstream := httptest.NewTLSServer(handler)
	t.Cleanup(upstream.Close)
	root, err := secret.LoadRoot(t.TempDir() + "/root")
	require.NoError(t, err)
	vendors := map[string]provider.Provider{}
	for _, p := range all.Providers() {
		vendors[p.Name] = p
	}
	s := &Server{config: Config{Root: root, Providers: vendors, Allowed: anywhere(t, vendors, "CONTROLPLANE_NONE")}}
	return s, &configv1.Provider{
		Name: "p", Vendor: "openai", Endpoint: upstream.URL + "/v1", Disabled: true,
		Headers: map[string]string{"X-Team": "very-private"},
		Credential: &configv1.Credential{Source: &configv1.Credential_Sealed{Sealed: root.Sealer().Seal("Provider", "p",
			"credential", secret.New(probeCredential))}},
		Tls: &configv1.UpstreamTLS{Ca: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: upstream.Certificate().Raw})), ServerName: "example.com"},
	}
}

func TestAProviderIsTestedWithItsCredential(t *testing.T) {
	s, p := probing(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "Bearer "+probeCredential ||
			r.Header.Get("X-Team") != "very-private" {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = fmt.Fprint(w, `{"object":"list","data":[{"id":"a"},{"id":"b"}]}`)
	})
	found, err := s.TestProvider(t.Context(), p)
	require.NoError(t, err)
	require.True(t, found.OK, found.Message)
	require.Equal(t, 200, found.Status)
	require.Equal(t, 2, found.Models)
}

func TestWhatIsWrongWithAProviderIsSaidWithoutSecrets(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("it was led to %s with %v", r.URL, r.Header)
	}))
	t.Cleanup(elsewhere.Close)
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		change func(*configv1.Provider)
		says   string
		status int
	}{
		"wrong credential": {answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
			says: "refused the credential", status: 401},
		"why it is wrong": {answer: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(w, `{"error":{"message":"Disabled: %s"}}`, r.Header.Get("Authorization"))
		}, says: "status 401. It says: Disabled: ", status: 401},
		"what repeats it": {answer: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"error":{"message":"bad: %s %s"}}`, r.Header.Get("Authorization"), r.Header.Get("X-Team"))
		}, says: "status 400: bad: ", status: 400},
		"redirect": {answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL,
				http.StatusFound)
		}, says: "", status: 302},
		"not JSON": {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
			says: "could not be read", status: 200},
		"other authority": {change: func(p *configv1.Provider) { p.Tls.Ca = "" }, says: "certificate"},
		"other name":      {change: func(p *configv1.Provider) { p.Tls.ServerName = "other.test" }, says: "certificate"},
		"nobody there":    {change: func(p *configv1.Provider) { p.Endpoint = "https://127.0.0.1:1/v1" }, says: "refused"},
		"no variable": {change: func(p *configv1.Provider) {
			p.Credential = &configv1.Credential{Source: &configv1.Credential_Env{Env: "CONTROLPLANE_NONE"}}
		}, says: "CONTROLPLANE_NONE"},
		"moved seal": {change: func(p *configv1.Provider) { p.Name = "q" }, says: "cannot be opened"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := tc.answer
			if answer == nil {
				answer = func(http.ResponseWriter, *http.Request) {}
			}
			s, p := probing(t, answer)
			if tc.change != nil {
				tc.change(p)
			}
			found, err := s.TestProvider(t.Context(), p)
			require.NoError(t, err)
			require.False(t, found.OK)
			require.Contains(t, found.Message, tc.says)
			require.Equal(t, tc.status, found.Status)
			require.NotContains(t, found.Message, probeCredential)
			require.NotContains(t, found.Message, "very-private")
		})
	}
}

func TestOneTestOfAProviderAtATimeAndNotForLong(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	s, p := probing(t, func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-release
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan string, 1)
	go func() {
		found, _ := s.TestProvider(ctx, p)
		done <- found.Message
	}()
	<-asked
	_, err := s.TestProvider(t.Context(), p)
	require.ErrorContains(t, err, "being tested already")
	cancel()
	require.Contains(t, <-done, "did not answer")
	close(release)
}
