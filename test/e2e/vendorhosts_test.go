package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// server returns the certificate of names, as the platform's authority issues it.
func (i *issuing) server(names ...string) *configv1.Certificate {
	i.made++
	pair := i.sign(&x509.Certificate{SerialNumber: big.NewInt(i.made), Subject: pkix.Name{CommonName: "gateway"},
		DNSNames: names, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	key, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	require.NoError(i.t, err)
	return &configv1.Certificate{
		Chain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Leaf.Raw})),
		PrivateKey: &configv1.Credential{Source: &configv1.Credential_Value{
			Value: string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}))}},
	}
}

// TestVendorsNamesLeadToTheGateway: applications that know no other address than their vendor's reach the gateway, if
// the cluster's DNS leads there. It shows a certificate for the name, and serves the vendor's own paths and names of
// models.
func TestVendorsNamesLeadToTheGateway(t *testing.T) {
	g := startRun(t, t.TempDir())
	authority := newIssuing(t)
	certificate := authority.server("api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com",
		"api.groq.com", "api.deepseek.com")
	certificate.Name = "vendors"
	port := harness.FreePort(t)
	documents := []configv1.Object{certificate, &configv1.Gateway{Name: "vendors", Address: "127.0.0.1",
		Port: uint32(port), Certificate: "vendors"}}
	for _, vendor := range []string{"openai", "anthropic", "gemini", "groq", "deepseek"} {
		documents = append(documents, &configv1.Provider{Name: vendor, Vendor: vendor, Models: []string{"shared"},
			Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "x"}}})
	}
	for _, model := range []string{"gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash", "llama-3.3-70b", "deepseek-chat"} {
		documents = append(documents, &configv1.Model{Name: model, Targets: []*configv1.Target{{Provider: "echo",
			Model: "echo"}}})
	}
	harness.Must(t, harness.Documents(t, documents...), "config", "apply", "--data", g.Dir, "-f", "-")

	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM([]byte(authority.ca())))
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) { // as the cluster's DNS does
			return new(net.Dialer).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", port))
		}}}
	ask := func(address, header, body string) (int, string) {
		name, value, _ := strings.Cut(header, ": ")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(name, value+g.Key)
		answer, err := client.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(text)
	}
	const bearer = "Authorization: Bearer "
	chat := func(model string) string {
		return `{"model":"` + model + `","messages":[{"role":"user","content":"hello there"}],"max_tokens":9}`
	}
	calls := []struct{ address, header, body string }{
		{"https://api.openai.com/v1/chat/completions", bearer, chat("gpt-4o")},
		{"https://api.openai.com/v1/responses", bearer, `{"model":"gpt-4o","input":"hello there"}`},
		{"https://api.anthropic.com/v1/messages", "x-api-key: ", chat("claude-sonnet-4-5")},
		{"https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent", "x-goog-api-key: ",
			`{"contents":[{"parts":[{"text":"hello there"}]}]}`},
		{"https://generativelanguage.googleapis.com/v1beta/openai/chat/completions", bearer, chat("gemini-2.5-flash")},
		{"https://api.groq.com/openai/v1/chat/completions", bearer, chat("llama-3.3-70b")},
		{"https://api.deepseek.com/chat/completions", bearer, chat("deepseek-chat")},
	}
	harness.Eventually(t, "the names of vendors", func() error {
		if status, body := ask(calls[0].address, calls[0].header, calls[0].body); status != 200 {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	for _, c := range calls {
		u, err := url.Parse(c.address)
		require.NoError(t, err)
		status, body := ask(c.address, c.header, c.body)
		require.Equal(t, 200, status, "%s: %s", c.address, body)
		require.Contains(t, body, "hello there", u.Host)
	}
	status, body := ask("https://api.openai.com/openai/v1/chat/completions", bearer, chat("gpt-4o"))
	require.Equal(t, 404, status, "a path of another vendor's host: %s", body)
	status, _ = ask("https://api.mistral.ai/v1/chat/completions", bearer, chat("gpt-4o"))
	require.Zero(t, status, "a name that the certificate lacks")
}
