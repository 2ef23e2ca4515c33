package e2e

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/fakeprovider"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// An ailing is a gateway in which much is wrong, each for a cause of its own.
type ailing struct {
	*gateway
	vendor  string // URL of all providers, which do what the header x-ill says
	secrets string // folder of credentials
}

// sickVendor fails with the header x-ill, and for the model "bad" until it is told to get well.
func sickVendor(t *testing.T) string {
	serves := fakeprovider.Handler()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		switch text := gjson.GetBytes(body, "messages.0.content").Str; {
		case r.Header.Get("X-Ill") == "broken", gjson.GetBytes(body, "model").Str == "bad" && text != "get well":
			w.WriteHeader(http.StatusInternalServerError)
		case text == "too fast":
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			serves.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func (a *ailing) provider(name, ill string, models ...string) *configv1.Provider {
	return &configv1.Provider{Name: name, Vendor: "openai", Endpoint: a.vendor, Models: models,
		Headers: map[string]string{"x-ill": ill}}
}

// ask sends requests, which must all be answered with a status, and returns when the first and the last was sent.
func (a *ailing) ask(t *testing.T, key, model, text string, n, status int) (first, last time.Time) {
	t.Helper()
	first = time.Now()
	for range n {
		last = time.Now()
		got, body, err := a.post("/v1/chat/completions", key,
			fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, model, text))
		require.NoError(t, err)
		require.Equal(t, status, got, "%s", body)
	}
	return first, last
}

// keyOf creates a key of an organization.
func (a *ailing) keyOf(t *testing.T, organization string, more ...string) (id, key string) {
	t.Helper()
	made := harness.Decode(t, harness.Must(t, "", append([]string{"key", "create", "--create-missing", "--data", a.Dir,
		"--name", organization, "--organization", organization, "-o", "json"}, more...)...))
	return made["id"].(string), made["key"].(string)
}

// TestEachKindOfIncidentOpensAndCloses causes kinds of incidents by what causes them in life, all at the same time.
// Each has one incident, with its first bad event, its last change and the undo of that. Then it ends the causes,
// by the undo that the incident names if there is one.
func TestEachKindOfIncidentOpensAndCloses(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	a := &ailing{vendor: sickVendor(t), secrets: t.TempDir()}
	a.gateway = startRun(t, t.TempDir(), "--credential-file", a.secrets+"/="+a.vendor)
	w := &ward{t: t, at: []string{"--data", a.Dir}, list: func(closed ...adminapi.Flag) ([]adminapi.Incident, error) {
		all, err := adminapi.NewClient(a.Admin, a.File(t, "admin-token"), a.Client).Incidents(t.Context(), closed...)
		return all.Items, err
	}}
	a.Apply(t, a.provider("well", "", "good", "gpt-4.1"), a.provider("sick", "", "good"), a.provider("tired", "", "good"),
		a.provider("half", "", "good", "bad"), &configv1.Organization{Name: "poor"}, &configv1.Organization{Name: "slow"})
	_, acme := a.keyOf(t, "acme")
	harness.Eventually(t, "the configuration", func() error { return a.has("half/bad", "sick/good") })
	a.traffic(t, w, acme)
	a.tenants(t, w)
	a.objects(t, w)
	a.checkers(t, w, acme)
	require.Equal(t, proofs()[t.Name()], w.kinds())
	w.await()
	w.end()
}

// traffic has providers and a model that fail.
func (a *ailing) traffic(t *testing.T, w *ward, acme string) {
	a.ask(t, acme, "sick/good", "hi", 1, 200)
	a.Apply(t, a.provider("sick", "broken", "good"))
	first, last := a.ask(t, acme, "sick/good", "hi", 6, 500)
	w.ill(illness{kind: adminapi.AttentionProviderFailing, subject: "provider/sick", first: first, last: last, hit: 6,
		why: "sick fails since ", change: "root updated Provider sick", undo: true,
		end: func() { a.ask(t, acme, "sick/good", "hi", 12, 200) }})

	a.ask(t, acme, "tired/good", "hi", 3, 200)
	first, last = a.ask(t, acme, "tired/good", "too fast", 1, 429)
	w.ill(illness{kind: adminapi.AttentionProviderCooling, subject: "provider/tired", first: first, last: last, hit: 1,
		why: "tired is tried last since ", change: "root created Provider tired"})

	a.ask(t, acme, "half/good", "hi", 60, 200)
	first, last = a.ask(t, acme, "half/bad", "hi", 20, 500)
	w.ill(illness{kind: adminapi.AttentionModelFailing, subject: "model/half/bad", first: first, last: last, hit: 20,
		why: "The model half/bad fails since ", end: func() { a.ask(t, acme, "half/bad", "get well", 21, 200) }})
}

// tenants have a key that is abused, a budget that is spent, and a limit that is reached.
func (a *ailing) tenants(t *testing.T, w *ward) {
	id, nosy := a.keyOf(t, "nosy", "--models", "well/good")
	harness.Eventually(t, "the key works", func() error { return a.accepts(nosy) })
	first, last := a.ask(t, nosy, "well/gpt-4.1", "hi", 20, 404)
	w.ill(illness{kind: adminapi.AttentionKeyRefused, subject: "key/" + id, first: first, last: last, hit: 20,
		why: "The key nosy is refused since ", change: "root created Key " + id,
		end: func() { a.ask(t, nosy, "well/good", "hi", 21, 200) }})

	_, key := a.keyOf(t, "poor")
	a.Apply(t, &configv1.Organization{Name: "poor", Budgets: []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "0.01"}}})
	long := strings.Repeat("hi ", 400)
	harness.Eventually(t, "the budget is spent", func() error {
		first = time.Now()
		status, body, err := a.post("/v1/chat/completions", key,
			fmt.Sprintf(`{"model":"well/gpt-4.1","messages":[{"role":"user","content":%q}]}`, long))
		if err == nil && status == 200 {
			err = errStill
		}
		require.NotEqual(t, 502, status, body)
		return err
	})
	w.ill(illness{kind: adminapi.AttentionBudget, subject: "budget/organization/poor day", first: first, last: first,
		hit: 1, lasts: true,
		why: "The budget of $0.01 a day of poor is nearly spent since ", change: "root updated Organization poor", undo: true})

	_, key = a.keyOf(t, "slow")
	a.Apply(t, &configv1.Organization{Name: "slow", Limits: []*configv1.Limit{{Domain: "requests",
		Unit: configv1.Unit_DAY, RequestsPerUnit: 1}}})
	a.ask(t, key, "well/good", "hi", 1, 200)
	first, last = a.ask(t, key, "well/good", "hi", 20, 429)
	w.ill(illness{kind: adminapi.AttentionLimit, subject: "limit/organization/slow limit requests per day", first: first,
		last: last, hit: 20, why: "The limit of requests per day of organization/slow refuses requests since ",
		change: "root updated Organization slow", undo: true, stays: "it has refused requests in the last 15 minutes"})
}

// objects have a credential that cannot be read, a certificate that Envoy refuses, and one that expires soon.
func (a *ailing) objects(t *testing.T, w *ward) {
	file := filepath.Join(a.secrets, "lost")
	require.NoError(t, os.WriteFile(file, []byte("sk-lost"), 0o600))
	lost := a.provider("lost", "", "good")
	lost.Credential = &configv1.Credential{Source: &configv1.Credential_File{File: file}}
	a.Apply(t, lost)
	first := time.Now()
	require.NoError(t, os.Remove(file))
	w.ill(illness{kind: adminapi.AttentionObjectError, subject: "object/Provider/lost", first: first, slack: watched,
		why: "Provider lost has no effect since ", change: "root created Provider lost",
		end: func() { require.NoError(t, os.WriteFile(file, []byte("sk-lost"), 0o600)) }})

	apply := func(objects ...configv1.Object) (first, last time.Time) {
		first = time.Now()
		// The data plane refuses it, or waits for it.
		_, _ = harness.Command(t, harness.Documents(t, objects...), "config", "apply", "--no-wait", "--data", a.Dir,
			"-f", "-")
		return first, time.Now()
	}
	first, last := apply(certificate(t, "weak", 1024, 90*24*time.Hour), &configv1.Gateway{Name: "weak",
		Address: "127.0.0.1", Port: uint32(harness.FreePort(t)), Certificate: "weak"})
	w.ill(illness{kind: adminapi.AttentionObjectError, subject: "object/Certificate/weak", first: first, last: last,
		why: "Certificate weak has no effect since ", change: "root created Certificate weak",
		end: func() { apply(certificate(t, "weak", 2048, 90*24*time.Hour)) }})
	first, last = apply(certificate(t, "soon", 2048, 3*24*time.Hour))
	w.ill(illness{kind: adminapi.AttentionCertificate, subject: "certificate/soon", first: first, last: last,
		why: "The certificate soon expires soon since ", change: "root created Certificate soon",
		end: func() { apply(certificate(t, "soon", 2048, 90*24*time.Hour)) }})
}

// certificate returns one that expires after a time.
func certificate(t *testing.T, name string, bits int, expires time.Duration) *configv1.Certificate {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-30 * 24 * time.Hour), NotAfter: time.Now().Add(expires),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	text := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return &configv1.Certificate{Name: name, Chain: text("CERTIFICATE", der), PrivateKey: &configv1.Credential{
		Source: &configv1.Credential_Value{Value: text("PRIVATE KEY", private)}}}
}

// checkers has one that answers, and then does not. What its guardrail refuses before is no part of the incident.
func (a *ailing) checkers(t *testing.T, w *ward, acme string) {
	judge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"flagged":true}`)
	}))
	guardrail := &configv1.Guardrail{Name: "harm", Models: []string{"tired/good"}, Rules: []*configv1.GuardRule{{
		Name: "violence", Mode: configv1.GuardMode_BLOCK, In: []configv1.GuardSide{configv1.GuardSide_REQUESTS},
		Checker: "judge"}}}
	a.Apply(t, &configv1.Checker{Name: "judge", Type: configv1.CheckerType_WEBHOOK, Url: judge.URL,
		Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}},
		guardrail)
	harness.Eventually(t, "the checker in force", func() error {
		status, _, err := a.post("/v1/chat/completions", acme,
			`{"model":"tired/good","messages":[{"role":"user","content":"hi"}]}`)
		if err == nil && status != 400 {
			err = fmt.Errorf("status %d", status)
		}
		return err
	})
	second := time.NewTimer(1100 * time.Millisecond)
	defer second.Stop()
	<-second.C // so that the first bad event is another second's
	judge.Close()
	first, last := a.ask(t, acme, "tired/good", "hi", 2, 503)
	w.ill(illness{kind: adminapi.AttentionCheckerAway, subject: "guardrail/harm", first: first, last: last, hit: 2,
		why: "The checker of the rule harm/violence does not answer since ", change: "root created Guardrail harm",
		end: func() {
			guardrail.Disabled = true
			a.Apply(t, guardrail)
		}})
}

// proofs are the kinds of incidents that open and close in a test, by its name.
func proofs() map[string][]string {
	return map[string][]string{
		"TestAnIncidentFromItsFirstSecondToItsUndo": {adminapi.AttentionCredentialRejected},
		"TestEachKindOfIncidentOpensAndCloses": {adminapi.AttentionBudget, adminapi.AttentionCertificate,
			adminapi.AttentionCheckerAway, adminapi.AttentionKeyRefused, adminapi.AttentionLimit,
			adminapi.AttentionModelFailing, adminapi.AttentionObjectError, adminapi.AttentionProviderCooling,
			adminapi.AttentionProviderFailing},
		"TestPartsThatAreAwayHaveIncidents": {adminapi.AttentionDataPlane, adminapi.AttentionJobs,
			adminapi.AttentionLedger, adminapi.AttentionSpool, adminapi.AttentionStore},
		// Of package controlplane/api. It has also what closes 15 minutes after its last bad event.
		"TestIncidentsThatTakeMinutes": {adminapi.AttentionAuditSink, adminapi.AttentionBatchStuck},
	}
}

// TestEachKindOfIncidentHasAProof fails if there is a kind that no test shows to open and to close.
func TestEachKindOfIncidentHasAProof(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "incidents.md"))
	require.NoError(t, err)
	var kinds, proven []string
	row := regexp.MustCompile("(?m)^\\|[^|]*\\| ([`a-z_, ]+) \\| (?:error|warning)")
	for _, of := range row.FindAllStringSubmatch(string(text), -1) {
		kinds = append(kinds, strings.Split(strings.ReplaceAll(of[1], "`", ""), ", ")...)
	}
	for _, some := range proofs() {
		proven = append(proven, some...)
	}
	require.ElementsMatch(t, kinds, proven)
}
