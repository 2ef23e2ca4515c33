package configv1_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// webhookSecret is one of n bytes.
func webhookSecret(n int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", n)))
}

// requireField holds that the object is valid, where field is "", or that what is wrong with it is that field.
func requireField(t *testing.T, o configv1.Object, field string) {
	t.Helper()
	errs := configv1.Validate(o, knownVendor)
	if field == "" {
		require.Empty(t, errs)
		return
	}
	require.Len(t, errs, 1)
	require.Equal(t, field, errs[0].Field)
}

func storedFor(d time.Duration) *configv1.StoredResponses {
	return &configv1.StoredResponses{Retention: durationpb.New(d)}
}

func TestValidateJobService(t *testing.T) {
	ca, _ := pair(t)
	mutual := func() *configv1.MutualTLS {
		return &configv1.MutualTLS{Certificate: "envoy", Ca: ca, ServerName: "jobs.internal"}
	}
	for name, tc := range map[string]struct {
		change func(*configv1.JobService)
		field  string
	}{
		"two sockets":         {func(s *configv1.JobService) {}, ""},
		"another name":        {func(s *configv1.JobService) { s.Name = "second" }, "name"},
		"no address":          {func(s *configv1.JobService) { s.Address = "" }, "address"},
		"no place to listen":  {func(s *configv1.JobService) { s.Listen = "" }, "listen"},
		"one socket for both": {func(s *configv1.JobService) { s.Listen = s.GetAddress() }, "listen"},
		"a relative path":     {func(s *configv1.JobService) { s.Address = "unix://run/jobs" }, "address"},
		"a path with dots":    {func(s *configv1.JobService) { s.Address = "unix:///run/../jobs" }, "address"},
		"a path too long": {func(s *configv1.JobService) { s.Address = "unix:///" + strings.Repeat("a", 107) },
			"address"},
		"stored responses": {func(s *configv1.JobService) { s.StoredResponses = &configv1.StoredResponses{} }, ""},
		"responses for a minute": {func(s *configv1.JobService) { s.StoredResponses = storedFor(time.Minute) },
			"stored_responses.retention"},
		"responses for two years": {func(s *configv1.JobService) { s.StoredResponses = storedFor(2 * 365 * 24 * time.Hour) },
			"stored_responses.retention"},
		"responses for seven days": {func(s *configv1.JobService) { s.StoredResponses = storedFor(7 * 24 * time.Hour) }, ""},
		"TLS between sockets":      {func(s *configv1.JobService) { s.Tls = mutual() }, "tls"},
		"a port without TLS":       {func(s *configv1.JobService) { s.Address = "jobs.internal:8443" }, "tls"},
		"listening without TLS":    {func(s *configv1.JobService) { s.Listen = "0.0.0.0:8443" }, "tls"},
		"both by ports": {func(s *configv1.JobService) {
			s.Address, s.Listen, s.Tls = "jobs:8443",
				"10.0.0.1:8443", mutual()
		}, ""},
		"IPv6": {func(s *configv1.JobService) {
			s.Address, s.Listen, s.Tls = "[::1]:8443", "[::]:8444",
				mutual()
		}, ""},
		"a zone": {func(s *configv1.JobService) { s.Address, s.Tls = "[fe80::1%eth0]:8443", mutual() },
			"address"},
		"one socket and one port": {func(s *configv1.JobService) { s.Address, s.Tls = "jobs:8443", mutual() }, ""},
		"listening at a name": {func(s *configv1.JobService) { s.Listen, s.Tls = "localhost:8443", mutual() },
			"listen"},
		"no port":         {func(s *configv1.JobService) { s.Address, s.Tls = "jobs", mutual() }, "address"},
		"port 0":          {func(s *configv1.JobService) { s.Listen, s.Tls = "0.0.0.0:0", mutual() }, "listen"},
		"a port too high": {func(s *configv1.JobService) { s.Address, s.Tls = "jobs:65536", mutual() }, "address"},
		"a URL": {func(s *configv1.JobService) { s.Address, s.Tls = "https://jobs:8443", mutual() },
			"address"},
		"TLS without a certificate": {func(s *configv1.JobService) {
			s.Address, s.Tls = "jobs:1",
				mutual()
			s.Tls.Certificate = ""
		}, "tls.certificate"},
		"TLS without authorities": {func(s *configv1.JobService) { s.Address, s.Tls = "jobs:1", mutual(); s.Tls.Ca = "" },
			"tls.ca"},
		"TLS by a file": {func(s *configv1.JobService) {
			s.Address, s.Tls = "jobs:1", mutual()
			s.Tls.Ca, s.Tls.CaFile = "", "/etc/ca.crt"
		}, ""},
		"TLS by both": {func(s *configv1.JobService) { s.Address, s.Tls = "jobs:1", mutual(); s.Tls.CaFile = "/etc/ca.crt" },
			"tls.ca_file"},
		"TLS by a relative file": {func(s *configv1.JobService) {
			s.Address, s.Tls = "jobs:1", mutual()
			s.Tls.Ca, s.Tls.CaFile = "", "ca.crt"
		}, "tls.ca_file"},
		"TLS without a name": {func(s *configv1.JobService) {
			s.Address, s.Tls = "jobs:1",
				mutual()
			s.Tls.ServerName = ""
		}, "tls.server_name"},
		"TLS with an address as a name": {func(s *configv1.JobService) {
			s.Address, s.Tls = "jobs:1",
				mutual()
			s.Tls.ServerName = "10.0.0.1"
		}, "tls.server_name"},
		"TLS with a pattern": {func(s *configv1.JobService) {
			s.Address, s.Tls = "jobs:1",
				mutual()
			s.Tls.ServerName = "*.internal"
		}, "tls.server_name"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &configv1.JobService{Name: "default", Address: "unix:///run/jobs.sock", Listen: "unix:///run/internal.sock"}
			tc.change(s)
			requireField(t, s, tc.field)
		})
	}
}

func TestValidateWebhook(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*configv1.Webhook)
		field  string
	}{
		"minimal":                 {func(w *configv1.Webhook) {}, ""},
		"of a project":            {func(w *configv1.Webhook) { w.Organization, w.Project = "org", "proj" }, ""},
		"no name":                 {func(w *configv1.Webhook) { w.Name = "" }, "name"},
		"an odd organization":     {func(w *configv1.Webhook) { w.Organization = "a b" }, "organization"},
		"an odd project":          {func(w *configv1.Webhook) { w.Project = "a b" }, "project"},
		"no URL":                  {func(w *configv1.Webhook) { w.Url = "" }, "url"},
		"plain HTTP, and a query": {func(w *configv1.Webhook) { w.Url = "http://10.0.0.1:8080/x?y=z" }, ""},
		"another scheme":          {func(w *configv1.Webhook) { w.Url = "file:///etc/passwd" }, "url"},
		"no host":                 {func(w *configv1.Webhook) { w.Url = "https:///x" }, "url"},
		"a password":              {func(w *configv1.Webhook) { w.Url = "https://a:b@host/" }, "url"},
		"a fragment":              {func(w *configv1.Webhook) { w.Url = "https://host/#x" }, "url"},
		"a port that is none":     {func(w *configv1.Webhook) { w.Url = "https://host:0/" }, "url"},
		"a line break":            {func(w *configv1.Webhook) { w.Url = "https://host/\n" }, "url"},
		"a URL too long": {func(w *configv1.Webhook) { w.Url = "https://host/" + strings.Repeat("a", 2048) },
			"url"},
		"events": {func(w *configv1.Webhook) { w.Events = configv1.WebhookEvents() }, ""},
		"an unknown event": {func(w *configv1.Webhook) {
			w.Events = []string{"batch.completed",
				"batch.created"}
		}, "events[1]"},
		"an event twice": {func(w *configv1.Webhook) { w.Events = []string{"batch.failed", "batch.failed"} },
			"events[1]"},
		"no secret":            {func(w *configv1.Webhook) { w.Secret = nil }, "secret"},
		"a secret from a file": {func(w *configv1.Webhook) { w.Secret = fileCredential("/run/secret") }, ""},
		"a sealed secret":      {func(w *configv1.Webhook) { w.Secret = sealed("c2VhbGVk") }, ""},
		"the shortest secret":  {func(w *configv1.Webhook) { w.Secret = value(webhookSecret(24)) }, ""},
		"the longest secret":   {func(w *configv1.Webhook) { w.Secret = value(webhookSecret(64)) }, ""},
		"a secret too short":   {func(w *configv1.Webhook) { w.Secret = value(webhookSecret(23)) }, "secret.value"},
		"a secret too long":    {func(w *configv1.Webhook) { w.Secret = value(webhookSecret(65)) }, "secret.value"},
		"a secret without its prefix": {func(w *configv1.Webhook) { w.Secret = value(webhookSecret(32)[6:]) },
			"secret.value"},
		"a secret that is not base64": {func(w *configv1.Webhook) { w.Secret = value("whsec_" + strings.Repeat("!", 44)) },
			"secret.value"},
		"a secret with a line feed": {func(w *configv1.Webhook) { w.Secret = value(webhookSecret(32) + "\n") },
			"secret.value"},
		"a secret that is empty":       {func(w *configv1.Webhook) { w.Secret = value("") }, "secret.value"},
		"a secret that has no source ": {func(w *configv1.Webhook) { w.Secret = &configv1.Credential{} }, "secret"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &configv1.Webhook{Name: "hook", Url: "https://hooks.test/x", Secret: value(webhookSecret(32))}
			tc.change(w)
			requireField(t, w, tc.field)
		})
	}
}

func fileCredential(path string) *configv1.Credential {
	return &configv1.Credential{Source: &configv1.Credential_File{File: path}}
}

func TestAWebhooksSecretIsACredentialAndNeverInAnError(t *testing.T) {
	w := &configv1.Webhook{Name: "hook", Url: "https://hooks.test/", Secret: value("whsec_verysecret")}
	require.NotContains(t, configv1.Validate(w, knownVendor).Error(), "verysecret")
	require.NotContains(t, configv1.ValidateStored(w, knownVendor).Error(), "verysecret")
	w.Secret = value(webhookSecret(32))
	errs := configv1.ValidateStored(w, knownVendor)
	require.Len(t, errs, 1)
	require.Equal(t, "secret.value", errs[0].Field, "it must be sealed before it is stored")
}

func TestValidateListing(t *testing.T) {
	many := &configv1.Listing{Name: "openai"}
	for i := range 5001 {
		many.Models = append(many.Models, &configv1.ListedModel{Id: fmt.Sprint(i)})
	}
	requireField(t, many, "models")
	many.Models = many.GetModels()[:5000]
	requireField(t, many, "")
	for field, l := range map[string]*configv1.Listing{
		"": {Name: "openai", Models: []*configv1.ListedModel{{Id: "gpt-4o", Created: 1, OwnedBy: "system"},
			{Id: "models/x y"}}},
		"name":               {},
		"models[0].id":       {Name: "openai", Models: []*configv1.ListedModel{{}}},
		"models[1].id":       {Name: "openai", Models: []*configv1.ListedModel{{Id: "a"}, {Id: "a"}}},
		"models[0].created":  {Name: "openai", Models: []*configv1.ListedModel{{Id: "a", Created: -1}}},
		"models[0].owned_by": {Name: "openai", Models: []*configv1.ListedModel{{Id: "a", OwnedBy: "a\nb"}}},
	} {
		requireField(t, l, field)
	}
}

func TestValidateWhoseModelItIs(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*configv1.Model)
		field  string
	}{
		"everybody's":           {func(m *configv1.Model) {}, ""},
		"an organization's":     {func(m *configv1.Model) { m.Organization = "org" }, ""},
		"a project's":           {func(m *configv1.Model) { m.Organization, m.Project = "org", "proj" }, ""},
		"a project's of nobody": {func(m *configv1.Model) { m.Project = "proj" }, "project"},
		"an odd organization":   {func(m *configv1.Model) { m.Organization = "a/b" }, "organization"},
		"fine-tuned": {func(m *configv1.Model) {
			m.FineTuned = &configv1.FineTuned{Job: "ftjob_1",
				BaseModel: "openai/gpt-4o"}
		}, ""},
		"fine-tuned by no job": {func(m *configv1.Model) {
			m.FineTuned = &configv1.FineTuned{
				BaseModel: "openai/gpt-4o"}
		}, "fine_tuned.job"},
		"fine-tuned of no base model": {func(m *configv1.Model) { m.FineTuned = &configv1.FineTuned{Job: "ftjob_1"} },
			"fine_tuned.base_model"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &configv1.Model{Name: "ft:gpt-4o:org::1",
				Targets: []*configv1.Target{{Provider: "openai", Model: "ft:gpt-4o"}}}
			tc.change(m)
			requireField(t, m, tc.field)
		})
	}
}

func TestTheJobServiceTakesNoPortOfAGateway(t *testing.T) {
	gateway := &configv1.Gateway{Name: "edge", Port: 8443, Certificate: "envoy"}
	jobs := &configv1.JobService{Name: "default", Address: "unix:///a", Listen: "127.0.0.1:8443",
		Tls: &configv1.MutualTLS{Certificate: "envoy"}}
	errs := configv1.ValidateConflicts([]configv1.Object{gateway, jobs})
	require.Len(t, errs, 1)
	require.Equal(t, "JobService default: listen: port 8443 is already taken by port of Gateway edge", errs[0].Error())
	jobs.Listen = "127.0.0.1:8444"
	require.Empty(t, configv1.ValidateConflicts([]configv1.Object{gateway, jobs}))
	require.Len(t, configv1.ValidateSet([]configv1.Object{jobs}), 1, "its certificate must exist")
	require.Empty(t, configv1.ValidateSet([]configv1.Object{jobs, gateway, &configv1.Certificate{Name: "envoy"}}))
}

func TestARouteTakesNoneOfTheJobServicesPaths(t *testing.T) {
	for _, prefix := range []string{"/v1/files", "/v1/files/x", "/v1/uploads", "/v1/uploads/", "/v1/batches/x",
		"/v1/fine_tuning", "/v1/fine_tuning/jobs", "/v1/models/x"} {
		require.NotEmpty(t, configv1.OwnPath(prefix), prefix)
	}
}
