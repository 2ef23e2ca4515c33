package allowed_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/provider/all"
)

func env(name string) *configv1.Credential {
	return &configv1.Credential{Source: &configv1.Credential_Env{Env: name}}
}

func file(name string) *configv1.Credential {
	return &configv1.Credential{Source: &configv1.Credential_File{File: name}}
}

func to(endpoint string, c *configv1.Credential) *configv1.Provider {
	return &configv1.Provider{Name: "p", Vendor: "openai", Endpoint: endpoint, Credential: c}
}

func newList(t *testing.T, variables, files []string) *allowed.List {
	t.Helper()
	l, err := allowed.New(all.Providers(), allowed.Flags{Variables: variables, Files: files})
	require.NoError(t, err)
	return l
}

func TestAVendorsVariableGoesToTheVendorAlone(t *testing.T) {
	l := newList(t, nil, nil)
	for name, v := range all.Providers() {
		if v.CredentialEnv == "" || v.DefaultEndpoint == "" && v.BaseURL == nil {
			continue
		}
		p := &configv1.Provider{Name: name, Vendor: name, Credential: env(v.CredentialEnv)}
		if name == "bedrock" {
			p.Region = "eu-central-1"
		}
		require.NoError(t, l.Check(p), name)
		p.Endpoint = "https://evil.example"
		require.ErrorContains(t, l.Check(p), "--credential-env "+v.CredentialEnv+"=evil.example", name)
	}
	for _, good := range []*configv1.Provider{
		{Vendor: "azure", Endpoint: "https://acme.openai.azure.com", Credential: env("AZURE_OPENAI_API_KEY")},
		{Vendor: "openai", Endpoint: "https://API.openai.com:443/v1/other", Credential: env("OPENAI_API_KEY")},
		// another dialect, the same host
		{Vendor: "compatible", Endpoint: "https://api.openai.com", Credential: env("OPENAI_API_KEY")},
		{Vendor: "openai", Endpoint: "https://evil.example",
			Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "theirs"}}},
		{Vendor: "openai", Endpoint: "https://evil.example"},
	} {
		require.NoError(t, l.Check(good))
	}
	for _, bad := range []*configv1.Provider{
		to("https://api.openai.com.evil.example", env("OPENAI_API_KEY")),
		to("https://api.openai.com.", env("OPENAI_API_KEY")),
		to("https://api.openai.com:8443", env("OPENAI_API_KEY")),
		to("http://api.openai.com", env("OPENAI_API_KEY")), // in clear
		to("unix:///run/api.openai.com", env("OPENAI_API_KEY")),
		to("https://openai.com", env("OPENAI_API_KEY")),
		to("", env("AWS_SECRET_ACCESS_KEY")),
		to("", env("ANTHROPIC_API_KEY")), // another vendor's
		to("", file("/etc/modelgate/pepper")),
		{Vendor: "azure", Endpoint: "https://a.b.openai.azure.com", Credential: env("AZURE_OPENAI_API_KEY")},
		// a bucket
		{Vendor: "bedrock", Endpoint: "https://bedrock-runtime.s3-us-west-2.amazonaws.com",
			Credential: env("AWS_BEARER_TOKEN_BEDROCK")},
		{Vendor: "bedrock", Endpoint: "https://bedrock-runtime.s3.amazonaws.com",
			Credential: env("AWS_BEARER_TOKEN_BEDROCK")},
	} {
		require.ErrorContains(t, l.Check(bad), "--credential-", "%v", bad)
		require.Error(t, (*allowed.List)(nil).Check(bad))
	}
}

func TestFlagsSayWhatGoesWhere(t *testing.T) {
	l := newList(t,
		[]string{"OPENAI_API_KEY=proxy.internal,*.eu.internal:8443", "LAB=http://127.0.0.1:*", "ANY=*",
			"SOCKET=unix:///run/llm.sock", "HOOK=hooks.internal", "SIX=[::1]:8080", "TLS_KEY"},
		[]string{"/etc/tls/", "/run/secrets/acme=api.acme.example", "/run/secrets/acme=api2.acme.example"})
	for _, good := range []configv1.Object{
		to("https://proxy.internal/v1", env("OPENAI_API_KEY")),
		to("https://a.eu.internal:8443", env("OPENAI_API_KEY")),
		to("http://127.0.0.1:4711", env("LAB")),
		to("https://whatever.example:99", env("ANY")),
		to("unix:///run/llm.sock", env("SOCKET")),
		to("https://[::1]:8080", env("SIX")),
		to("https://api.acme.example", file("/run/secrets/acme")),
		to("https://api2.acme.example", file("/run/secrets/acme")),
		&configv1.Provider{Name: "p", Vendor: "anthropic", Credential: env("ANTHROPIC_API_KEY")},
		&configv1.Webhook{Name: "w", Url: "https://hooks.internal/x?y=z", Secret: env("HOOK")},
		&configv1.Certificate{Name: "c", ChainFile: "/etc/tls/tls.crt", PrivateKey: file("/etc/tls/deep/tls.key")},
		&configv1.Certificate{Name: "c", PrivateKey: env("TLS_KEY")},
		&configv1.JobService{Name: "default", Tls: &configv1.MutualTLS{CaFile: "/etc/tls/ca.crt"}},
		&configv1.Model{Name: "m"},
	} {
		require.NoError(t, l.Check(good), "%v", good)
	}
	for field, bad := range map[string][]configv1.Object{
		"credential.env": {
			to("", env("OPENAI_API_KEY")), // a flag takes the place of what is built in
			to("https://eu.internal:8443", env("OPENAI_API_KEY")), to("https://a.eu.internal", env("OPENAI_API_KEY")),
			to("https://a.b.eu.internal:8443", env("OPENAI_API_KEY")),
			to("https://127.0.0.1:4711", env("LAB")), to("http://127.0.0.2:4711", env("LAB")),
			to("http://whatever.example", env("ANY")),
			to("unix:///run/other.sock", env("SOCKET")), to("https://api.openai.com", env("TLS_KEY")),
		},
		"credential.file": {
			to("https://api.acme.example", file("/run/secrets/acme2")),
			to("https://api.acme.example", file("/etc/tls/tls.key")),
			to("https://api.acme.example", file("/run/secrets/../secrets/acme")),
		},
		"secret.env": {&configv1.Webhook{Name: "w", Url: "https://evil.example", Secret: env("HOOK")},
			&configv1.Webhook{Name: "w", Url: "http://hooks.internal", Secret: env("HOOK")}},
		"chain_file": {&configv1.Certificate{Name: "c", ChainFile: "/etc/shadow",
			PrivateKey: file("/etc/tls/tls.key")}, &configv1.Certificate{Name: "c", ChainFile: "/etc/tls/../shadow"}},
		"private_key.file": {&configv1.Certificate{Name: "c", PrivateKey: file("/etc/tls")}},
		"private_key.env":  {&configv1.Certificate{Name: "c", PrivateKey: env("AWS_SECRET_ACCESS_KEY")}},
		"tls.ca_file":      {&configv1.JobService{Name: "default", Tls: &configv1.MutualTLS{CaFile: "/etc/ca.crt"}}},
	} {
		for _, o := range bad {
			err := l.Check(o)
			var errs configv1.Errors
			require.ErrorAs(t, err, &errs, "%v", o)
			require.Equal(t, field, errs[0].Field, "%v", o)
			require.Contains(t, err.Error(), "Start the control plane with --credential-")
		}
	}
}

// What an error advises is taken by the flag, and mends it.
func TestTheAdviceOfAnErrorHelps(t *testing.T) {
	for _, endpoint := range []string{"https://evil.example", "http://127.0.0.1:99", "https://[::1]:8", "http://[::1]",
		"unix:///run/x.sock", "https://h.example:1"} {
		err := newList(t, nil, nil).Check(to(endpoint, env("OPENAI_API_KEY")))
		require.Error(t, err)
		_, after, _ := strings.Cut(err.Error(), "--credential-env ")
		flag, _, _ := strings.Cut(after, ", or")
		require.NoError(t, newList(t, []string{flag}, nil).Check(to(endpoint, env("OPENAI_API_KEY"))), flag)
	}
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	for _, flag := range []string{"", "=api.example.com", "A=", "A=b,", "A=https://b", "A=b:x", "A=b:", "A=b:0", "A=b/c",
		"A=?", "A=unix://x", "A=a:b:c"} {
		_, err := allowed.New(nil, allowed.Flags{Variables: []string{flag}})
		require.ErrorContains(t, err, "--credential-env", flag)
	}
	for _, flag := range []string{"", "*", "/", "/secret/data/a", "secret/../sys", "../secret", "secret//a", "a*b",
		"a?b*", "secret/data/a=", "secret/data/a=b:x", "secret/data/**"} {
		_, err := allowed.New(nil, allowed.Flags{Vault: []string{flag}})
		require.ErrorContains(t, err, "--credential-vault", flag)
	}
	for _, flag := range []string{"relative", "/", "/a/../b", "/a//b"} {
		_, err := allowed.New(nil, allowed.Flags{Files: []string{flag}})
		require.ErrorContains(t, err, "--credential-file", flag)
	}
}

func inVault(path string) *configv1.Credential {
	return &configv1.Credential{Source: &configv1.Credential_Vault{
		Vault: &configv1.VaultSecret{Path: path, Field: "key"}}}
}

func TestFlagsSayWhereASecretInVaultGoes(t *testing.T) {
	l, err := allowed.New(all.Providers(), allowed.Flags{Vault: []string{"secret/data/openai=api.openai.com",
		"secret/data/team/=*.team.example", "secret/data/lab-*=http://127.0.0.1:*", "secret/data/team/tls"}})
	require.NoError(t, err)
	for _, good := range []configv1.Object{
		to("", inVault("secret/data/openai")),
		to("https://a.team.example", inVault("secret/data/team/a/b")),
		to("http://127.0.0.1:99", inVault("secret/data/lab-1")),
		to("https://a.team.example", inVault("secret/data/team/tls")), // by the other flag
		&configv1.Certificate{Name: "c", PrivateKey: inVault("secret/data/team/tls")},
	} {
		require.NoError(t, l.Check(good), "%v", good)
	}
	for _, bad := range []configv1.Object{
		to("https://evil.example", inVault("secret/data/openai")),
		to("", inVault("secret/data/openai2")), to("", inVault("secret/data/openai/x")),
		to("https://a.team.example", inVault("secret/data/team")),
		to("https://a.team.example", inVault("secret/data/teams/x")),
		to("https://a.team.example", inVault("secret/data/team/../openai")),
		to("https://a.team.example", inVault("/secret/data/team/a")),
		to("http://127.0.0.1:99", inVault("secret/data/lab")),
		to("", inVault("sys/health")),
		&configv1.Webhook{Name: "w", Url: "https://evil.example", Secret: inVault("secret/data/openai")},
	} {
		err := l.Check(bad)
		require.ErrorContains(t, err, "Start the control plane with --credential-vault", "%v", bad)
		require.Error(t, (*allowed.List)(nil).Check(bad))
	}
	err = l.Check(to("https://evil.example", inVault("secret/data/openai")))
	require.ErrorContains(t, err, "credential.vault: secret/data/openai may be sent to api.openai.com alone, and not to evil.example. Start the control plane with --credential-vault secret/data/openai=evil.example,")
	none, err := allowed.New(all.Providers(), allowed.Flags{})
	require.NoError(t, err)
	require.ErrorContains(t, none.Check(to("", inVault("secret/data/openai"))), "not among the secrets in Vault")
}

func TestTheAuditLogIsWrittenToFilesOfTheFlagAlone(t *testing.T) {
	l := newList(t, nil, []string{"/var/log/"})
	sink := &configv1.AuditSink{Name: "s", File: &configv1.AuditFile{Path: "/var/log/audit.jsonl"}}
	require.ErrorContains(t, l.Check(sink), "--audit-file /var/log/audit.jsonl", "a file that may be read is none to write to")
	require.Error(t, (*allowed.List)(nil).Check(sink))
	with, err := l.WithAuditFiles([]string{"/var/log/audit.jsonl"})
	require.NoError(t, err)
	require.NoError(t, with.Check(sink))
	sink.File.Path = "/var/log/audit.jsonl/../x"
	require.Error(t, with.Check(sink))
	for _, bad := range []string{"audit.jsonl", "/", "/var/log/", "/var/../log", ""} {
		_, err := l.WithAuditFiles([]string{bad})
		require.ErrorContains(t, err, "--audit-file", bad)
	}
	hook := &configv1.AuditSink{Name: "w", Webhook: &configv1.AuditWebhook{Url: "https://evil.example/"},
		Credential: env("OPENAI_API_KEY")}
	require.ErrorContains(t, with.Check(hook), "--credential-env OPENAI_API_KEY=evil.example")
}

func TestAnIdentityAndAManagedSecretGoWhereTheirFlagsSay(t *testing.T) {
	l, err := allowed.New(all.Providers(), allowed.Flags{
		Identities: []string{"aws", "aws:arn:aws:iam::1:role/x=gw.example", "google", "azure:11-22"},
		Managers:   []string{"aws/eu-west-1/prod/=api.openai.com", "azure/kv/openai=*.openai.azure.com"}})
	require.NoError(t, err)
	as := func(who string) *configv1.Credential {
		return &configv1.Credential{Source: &configv1.Credential_WorkloadIdentity{
			WorkloadIdentity: &configv1.WorkloadIdentity{As: who}}}
	}
	managed := func(name string) *configv1.Credential {
		return &configv1.Credential{Source: &configv1.Credential_SecretManager{
			SecretManager: &configv1.ManagedSecret{Name: name}}}
	}
	at := func(vendor, endpoint string, c *configv1.Credential) *configv1.Provider {
		return &configv1.Provider{Name: "p", Vendor: vendor, Endpoint: endpoint, Region: "eu-west-1", Project: "acme",
			Credential: c}
	}
	for _, good := range []configv1.Object{
		at("bedrock", "", as("")), at("vertex", "", as("")),
		at("bedrock", "https://gw.example", as("arn:aws:iam::1:role/x")),
		at("azure", "https://acme.openai.azure.com", as("11-22")),
		at("openai", "", managed("aws/eu-west-1/prod/openai")),
		at("azure", "https://acme.openai.azure.com", managed("azure/kv/openai")),
	} {
		require.NoError(t, l.Check(good), "%v", good)
	}
	for message, bad := range map[string]configv1.Object{
		"is for providers of the vendors bedrock, vertex and azure alone": at("openai", "", as("")),
		"aws may be sent": at("bedrock", "https://evil.example", as("")),
		"to gw.example alone, and not to bedrock-runtime.eu-west-1.amazonaws.com": at("bedrock", "",
			as("arn:aws:iam::1:role/x")),
		"Start the control plane with --credential-identity aws:arn:aws:iam::1:role/y=HOST": at("bedrock", "",
			as("arn:aws:iam::1:role/y")),
		"credential.workload_identity: azure is not among the identities": at("azure", "https://acme.openai.azure.com", as("")),
		"--credential-secret-manager aws/eu-west-1/prod/openai=evil.example": at("openai", "https://evil.example",
			managed("aws/eu-west-1/prod/openai")),
		"not among the secrets in secret managers": at("openai", "", managed("aws/eu-west-1/production")),
	} {
		require.ErrorContains(t, l.Check(bad), message)
		require.Error(t, (*allowed.List)(nil).Check(bad))
	}
	webhook := &configv1.Webhook{Name: "w", Url: "https://a.example", Secret: as("")}
	require.ErrorContains(t, l.Check(webhook), "is for providers of the vendors")
	for _, flag := range []string{"", "aws=", "oracle", "aws:a=b:x"} {
		_, err := allowed.New(all.Providers(), allowed.Flags{Identities: []string{flag}})
		require.ErrorContains(t, err, "--credential-identity", flag)
	}
}
