package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/internal/datadir"
)

var examinedAt = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// certificate returns one that is valid from and until times relative to the examination.
func certificate(t *testing.T, from, until time.Duration) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"gw.example"},
		NotBefore: examinedAt.Add(from), NotAfter: examinedAt.Add(until)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	c, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return c
}

// put adds objects, in the place of those of the same names.
func (p *patient) put(objects ...configv1.Object) {
	for _, o := range objects {
		kind := configv1.KindOf(o)
		kept := slices.DeleteFunc(p.items[kind.Name], func(i adminapi.Item) bool { return i.Name == o.GetName() })
		p.items[kind.Name] = append(kept, adminapi.Item{Kind: kind, Name: o.GetName(), Object: o})
	}
}

func (p *patient) refuse(kind, why string) { p.items[kind][0].Status.Error = why }

func (p *patient) key() *configv1.Key { return p.items["Key"][0].Object.(*configv1.Key) }

// healthy returns a patient that nothing is wrong with.
func healthy(t *testing.T) *patient {
	t.Helper()
	p := &patient{
		now: examinedAt, data: "data", there: true, modes: map[string]fs.FileMode{".": 0o755, datadir.FilePepper: 0o600},
		free: 50 << 30, size: 100 << 30,
		ready: adminapi.HealthOK, url: "https://gw.example:8443", host: "gw.example",
		chain: []*x509.Certificate{certificate(t, -time.Hour, 90*24*time.Hour)},
		items: map[string][]adminapi.Item{}, tests: map[string]adminapi.ProviderTest{"openai": {OK: true}},
		used: map[string]adminapi.Consumption{},
		plane: &adminapi.DataPlane{Revision: 7, Version: "v1", Clients: []adminapi.DataPlaneClient{
			{Node: "e", Role: "envoy", Version: "1.40.0", Revision: 7, Health: "ok"},
			{Node: "x", Role: "extproc", Version: "v1", Revision: 7, Health: "ok"},
		}},
	}
	p.put(
		&configv1.Provider{Name: "openai", Vendor: "openai",
			Credential: &configv1.Credential{Source: &configv1.Credential_Env{Env: "K"}}, Models: []string{"gpt-4.1"}},
		&configv1.Model{Name: "smart", Targets: []*configv1.Target{{Provider: "openai", Model: "gpt-4.1"}}},
		&configv1.Organization{Name: "acme", Limits: limitOf("requests", configv1.Unit_MINUTE, 100),
			Budgets: []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: "100"}}},
		&configv1.Key{Name: "key_a", Organization: "acme", Models: []string{"smart", "openai/*"},
			CreatedAt: timestamppb.New(examinedAt.Add(-time.Hour)),
			Limits:    limitOf("requests", configv1.Unit_MINUTE, 50),
			Budgets:   []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "5"}}},
	)
	return p
}

func limitOf(domain string, unit configv1.Unit, n uint64) []*configv1.Limit {
	return []*configv1.Limit{{Domain: domain, Unit: unit, RequestsPerUnit: n}}
}

func TestDoctorFindsNothingWhereNothingIsWrong(t *testing.T) {
	require.Empty(t, examine(healthy(t)))
}

func TestDoctorFinds(t *testing.T) {
	storeAway := &openai.Error{Status: http.StatusServiceUnavailable,
		Message: "The configuration store cannot be reached."}
	cases := []struct {
		name  string
		spoil func(*patient)
		check string
		worst Severity
		what  string
		mend  string
	}{
		{"no gateway at all", func(p *patient) { p.there, p.connect = false, fs.ErrNotExist }, "gateway", Error,
			"There is no gateway in the folder data", "modelgate run --data data"},
		{"a gateway that does not answer", func(p *patient) { p.connect = errors.New("connection refused") }, "gateway",
			Error, "connection refused", "modelgate run"},
		{"an unknown authority",
			func(p *patient) { p.connect = &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}} }, "gateway",
			Error, "unknown authority", "--ca FILE"},
		{"a remote gateway that does not answer", func(p *patient) { p.data, p.connect = "", errors.New("timeout") },
			"gateway", Error, "timeout", "--server"},
		{"a target without its credential", func(p *patient) { p.refuse("Provider", "credential: missing") }, "models",
			Error, "(it has an error)", "config apply"},
		{"not ready", func(p *patient) { p.ready = "not ready: envoy" }, "ready", Error, "not ready: envoy",
			"modelgate status"},
		{"etcd away", func(p *patient) { p.store = storeAway }, "store", Error, "store cannot be reached", "etcdctl"},
		{"a wrong token", func(p *patient) { p.store = &openai.Error{Status: 401, Message: "Send an admin token."} },
			"store", Error, "admin token", "--token"},
		{"etcd fills", func(p *patient) { p.says = []string{adminapi.SaysWarning + "etcd fills: 7 of 10"} }, "besides",
			Warning, "etcd fills: 7 of 10", "quota"},
		{"jobs are away", func(p *patient) {
			p.says = []string{adminapi.SaysError + adminapi.SaysNoJobs +
				"blobs is a file"}
		}, "besides", Error, "no job service: blobs is a file", "restart the gateway"},
		{"the ledger is away", func(p *patient) {
			p.says = []string{adminapi.SaysError + adminapi.SaysNoLedger + "ledger.db is damaged"}
		}, "besides", Error, "no ledger: ledger.db", "Fix the named error"},
		{"memory is short", func(p *patient) {
			p.says = []string{adminapi.SaysError + adminapi.SaysShort +
				"more than 80 %"}
		}, "besides", Error, "memory: more than 80 %", "Give the process more memory"},
		{"bodies found no room", func(p *patient) {
			p.says = []string{adminapi.SaysWarning + adminapi.SaysBodies + "a body found no room"}
		}, "besides", Warning, "a body found no room", "--body-bytes"},
		{"etcd is full", func(p *patient) { p.says = []string{adminapi.SaysError + "etcd is full: 10 of 10"} }, "besides",
			Error, "etcd is full", "Delete"},
		{"a failing provider behind a fallback", func(p *patient) {
			p.attention = []adminapi.Attention{{Kind: adminapi.AttentionProviderFailing, Severity: "error",
				Subject: "provider/dead", Object: "Provider dead", Message: "The provider is failing."}}
			p.incidents = []adminapi.Incident{{Subject: "provider/dead", Why: "dead fails since 18:52:57 UTC: 19 of 19.",
				Change: &adminapi.IncidentChange{Actor: "ann", Command: "modelgate config rollback --revision 4 provider dead"}}}
		}, "incidents", Error, "dead fails since 18:52:57 UTC: 19 of 19.", "the change by ann"},
		{"a provider that limits", func(p *patient) {
			p.health = []adminapi.ProviderHealth{{Provider: "busy", State: adminapi.ProviderDegraded, LastError: "status 429",
				Last15Minutes: adminapi.HealthWindow{Attempts: 20, Failed: 4, RateLimited: 4}}}
		}, "provider health", Warning, "4 of 20 attempts", "rate limit at the vendor"},
		{"a provider that nobody has asked", func(p *patient) {
			p.health = []adminapi.ProviderHealth{{Provider: "new", State: adminapi.ProviderUntried},
				{Provider: "gone", State: adminapi.ProviderFailing, Deleted: true}}
		}, "provider health", Note, "Not asked yet: new.", "modelgate provider test"},
		{"the ledger away", func(p *patient) { p.ledger = errors.New("no such table") }, "ledger", Error, "no such table",
			"database"},
		{"a quota that is almost used up", func(p *patient) {
			p.quotas = []adminapi.TenantQuotas{{Organization: "acme", Project: "web",
				Quotas: []adminapi.QuotaUse{{Name: "files", Used: 79, Limit: 100}, {Name: "open_batches", Used: 8, Limit: 10}}}}
		}, "quotas", Warning, "Project acme/web has used 80% of its quota open_batches: 8 of 10", "quotas.open_batches"},
		{"a receiver of alerts that fails", func(p *patient) {
			p.told = []adminapi.AlertReceiverStatus{{Name: "ops", Waiting: 2, Error: "it answered with status 500"}}
		}, "alerts", Warning, "ops fails: it answered with status 500. 2 messages wait", "modelgate alerts test ops"},
		{"an issuer that is away", func(p *patient) {
			p.people = map[string]adminapi.IdentityTest{"okta": {OK: true}, "corp": {Message: "it answered with status 500"}}
		}, "sign-in", Warning, "identity provider corp: it answered with status 500", "docs/sign-in.md"},
		{"a spool that is full", func(p *patient) { p.metrics = map[string]float64{admincli.MetricWaiting: 7} }, "spool",
			Error, "7 bytes", "Free space"},
		{"records that are lost", func(p *patient) { p.metrics = map[string]float64{admincli.MetricDropped: 7} }, "spool",
			Error, "7 usage records were lost", "Free space"},
		{"records that wait", func(p *patient) { p.metrics = map[string]float64{admincli.MetricBacklog: 10_001} }, "spool",
			Warning, "10001 records wait", "fast enough"},
		{"a clock that is slow", func(p *patient) { p.skew = -20 * time.Second }, "clock", Warning, "20s", "timedatectl"},
		{"a clock that is wrong", func(p *patient) { p.skew = 5 * time.Minute }, "clock", Error, "5m0s", "timedatectl"},
		{"no answer at the gateway's address", func(p *patient) { p.shown = errors.New("refused") }, "certificate", Error,
			"does not answer", "log"},
		{"a certificate that has expired", func(p *patient) { p.chain[0] = certificate(t, -2*time.Hour, -time.Hour) },
			"certificate", Error, "has expired", "at a restart"},
		{"a certificate that expires soon", func(p *patient) { p.chain[0] = certificate(t, -time.Hour, time.Hour) },
			"certificate", Warning, "expires at", "Certificate"},
		{"a certificate of tomorrow", func(p *patient) { p.chain[0] = certificate(t, time.Hour, 1000*time.Hour) },
			"certificate", Error, "not valid before", "Certificate"},
		{"a certificate of another host", func(p *patient) { p.host = "api.example" }, "certificate", Error,
			"not for its host", "api.example"},
		{"a stored certificate that expires", func(p *patient) {
			der := certificate(t, -time.Hour, time.Hour).Raw
			p.put(&configv1.Certificate{Name: "c",
				Chain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))})
		}, "certificates", Warning, "Certificate c expires", "config apply"},
		{"a pepper that all can read", func(p *patient) { p.modes[datadir.FilePepper] = 0o644 }, "permissions", Error,
			"Other users can access data/pepper: its mode is 0644", "chmod 600 data/pepper"},
		{"a folder that all can write", func(p *patient) { p.modes["."] = 0o777 }, "permissions", Error, "its mode is 0777",
			"chmod 700 data"},
		{"a disk that is nearly full", func(p *patient) { p.free = 1 << 30 }, "disk", Warning,
			"1024 MiB left", "Free space"},
		{"a disk that is full", func(p *patient) { p.free = 1 << 20 }, "disk", Error, "1 MiB left", "Free space"},
		{"no Envoy", func(p *patient) { p.envoy = errors.New("envoy is Envoy 1.30.0"); p.connect = fs.ErrNotExist }, "envoy",
			Error, "1.30.0", "--envoy"},
		{"no Envoy connected", func(p *patient) { p.plane.Clients = p.plane.Clients[1:] }, "data plane", Error,
			"No envoy is connected", "xDS"},
		{"a NACK", func(p *patient) { p.plane.Clients[0].Health, p.plane.Clients[0].Error = "refused", "bad listener" },
			"data plane", Error, "refuses the configuration: bad listener", "config list"},
		{"one that is behind", func(p *patient) { p.plane.Clients[1].Health, p.plane.Clients[1].Revision = "behind", 3 },
			"data plane", Warning, "revision 3 of 7", "restart extproc x"},
		{"an old Envoy", func(p *patient) { p.plane.Clients[0].Version = "1.9.9" }, "versions", Error,
			"Envoy e has version 1.9.9", "newer on e"},
		{"versions that differ", func(p *patient) { p.plane.Clients[1].Version = "v0" }, "versions", Warning,
			"version v0, the control plane v1", "same version"},
		{"no job service", func(p *patient) { p.put(&configv1.JobService{Name: "default"}) }, "job service", Warning,
			"none is connected", "modelgate jobsvc"},
		{"an object that is refused", func(p *patient) { p.refuse("Model", "targets: none") }, "refused objects", Error,
			"Model smart has no effect: targets", "config get model smart"},
		{"only the built-in provider", func(p *patient) {
			p.items["Provider"] = nil
			p.put(&configv1.Provider{Name: "echo",
				Vendor: "echo"})
		}, "providers", Warning, "echo provider", "provider.yaml"},
		{"a variable that is not set", func(p *patient) { p.refuse("Provider", "credential: $K is not set") }, "credentials",
			Error, "$K is not set", "Set the variable K"},
		{"a provider without a credential", func(p *patient) {
			p.put(&configv1.Provider{Name: "openai", Vendor: "openai", Models: []string{"gpt-4.1"}})
		}, "credentials", Error, "has no credential", "env: OPENAI_API_KEY"},
		{"a credential that is refused",
			func(p *patient) { p.tests["openai"] = adminapi.ProviderTest{Message: "401: Incorrect API key"} }, "provider tests",
			Error, "Incorrect API key", "config get provider openai"},
		{"a model without live targets",
			func(p *patient) { p.items["Provider"][0].Object.(*configv1.Provider).Disabled = true }, "models", Error,
			"openai (disabled)", "enable the provider"},
		{"a target that leads nowhere", func(p *patient) {
			p.put(&configv1.Model{Name: "smart", Targets: []*configv1.Target{{Provider: "openai", Model: "gpt-4.1"},
				{Provider: "gone", Model: "m"}}})
		}, "models", Warning, "gone (there is no such provider)", "config get model smart"},
		{"a model without a price, with budgets", func(p *patient) {
			p.put(&configv1.Model{Name: "x", Targets: []*configv1.Target{{Provider: "openai", Model: "no-such"}}})
		}, "prices", Warning, "openai/no-such", "kind: Catalog"},
		{"keys that have expired", func(p *patient) { p.key().ExpiresAt = timestamppb.New(examinedAt) }, "keys", Note,
			"1 keys have expired: key_a", "revoke"},
		{"keys that are disabled", func(p *patient) { p.key().Disabled = true }, "keys", Note, "1 keys are disabled: key_a",
			"enable"},
		{"keys of somebody who has left", func(p *patient) {
			p.attention = []adminapi.Attention{{Kind: adminapi.AttentionKeysOfLeaver, Message: "pat has left."}}
		}, "leavers", Warning, "pat has left.", "enable"},
		{"tokens of somebody who has left", func(p *patient) {
			p.attention = []adminapi.Attention{{Kind: adminapi.AttentionTokensOfLeaver, Message: "pat has left."}}
		}, "leavers", Warning, "pat has left.", "token"},
		{"keys that nobody uses", func(p *patient) {
			p.key().CreatedAt, p.used["key_a"] = timestamppb.New(examinedAt.Add(-31*24*time.Hour)), adminapi.Consumption{}
		}, "unused keys", Note, "never used", "revoke"},
		{"a key for models that are not there", func(p *patient) { p.key().Models = []string{"smart", "smrat*"} },
			"key models", Warning, `No model matches "smrat*", which keys may use: key_a`, "config get models"},
		{"a key for a provider that is not there", func(p *patient) { p.key().Models = []string{"opanai/*"} }, "key models",
			Warning, `opanai/*`, "config get models"},
		{"a limit of nothing", func(p *patient) { p.key().Limits = limitOf("tokens", configv1.Unit_DAY, 0) }, "empty limits",
			Warning, "Key key_a (0 tokens per day)", "Remove"},
		{"a budget of nothing", func(p *patient) { p.key().Budgets[0].Usd = "0" }, "empty limits", Warning, "$0 per day",
			"Remove"},
		{"a key above its organization", func(p *patient) { p.key().Limits[0].RequestsPerUnit = 101 }, "limits", Warning,
			"101 requests per minute can never be reached: Organization acme has 100", "Lower"},
		{"a minute above its day", func(p *patient) {
			p.key().Limits = append(limitOf("input_tokens", configv1.Unit_MINUTE, 10),
				limitOf("tokens", configv1.Unit_DAY, 9)...)
		}, "limits", Warning, "10 input tokens per minute can never be reached: Key key_a has 9 tokens per day", "Lower"},
		{"a budget above its organization's", func(p *patient) { p.key().Budgets[0].Usd = "101" }, "limits", Warning,
			"$101 per day can never be reached", "Lower"},
		{"a rate limit of what is not there", func(p *patient) {
			p.put(&configv1.RateLimit{Name: "r", Domain: "requests",
				Descriptors: []*configv1.RateLimitDescriptor{{Key: "model",
					Descriptors: []*configv1.RateLimitDescriptor{{Key: "provider", Value: "gone"}}}}})
		}, "rate limits", Warning, "provider gone", "ratelimit r"},
		{"a budget that is spent", func(p *patient) {
			p.attention = []adminapi.Attention{{Kind: adminapi.AttentionBudget, Severity: "error", Subject: "budget/key/a day",
				Object: "Key a", Message: "100 % of it is spent."}}
		}, "incidents", Warning, "Key a: 100 % of it is spent.", "raise"},
	}
	covered := map[string]bool{}
	for _, c := range cases {
		covered[c.check] = true
		t.Run(c.name, func(t *testing.T) {
			p := healthy(t)
			c.spoil(p)
			found := slices.DeleteFunc(examine(p), func(f Finding) bool { return f.Check != c.check })
			require.Len(t, found, 1)
			require.Equal(t, c.worst, found[0].Severity)
			require.Contains(t, found[0].What, c.what)
			require.Contains(t, found[0].Mend, c.mend)
			require.NotEmpty(t, found[0].Why)
		})
	}
	for _, c := range checks() {
		require.True(t, covered[c.name], "no case for the check %q", c.name)
	}
}
