package configv1_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestAManagedSecretAndAnIdentityHaveNamesOfTheirClouds(t *testing.T) {
	errsOf := func(source *configv1.Credential) configv1.Errors {
		return configv1.Validate(&configv1.Provider{Name: "a", Vendor: "openai", Credential: source}, knownVendor)
	}
	managed := func(name, field string) configv1.Errors {
		return errsOf(&configv1.Credential{Source: &configv1.Credential_SecretManager{
			SecretManager: &configv1.ManagedSecret{Name: name, Field: field}}})
	}
	for _, good := range []string{"aws/eu-west-1/openai", "aws/us-gov-east-1/prod/openai",
		"aws/eu-west-1/arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/openai-AbCdEf", "google/acme-1/openai",
		"google/example.com:acme/openai/3", "azure/acme/openai", "azure/acme/openai/0123456789abcdef"} {
		require.Empty(t, managed(good, ""), good)
		require.Empty(t, managed(good, "key"), good)
	}
	for _, bad := range []string{"", "aws", "aws/", "aws/eu-west-1", "aws/eu-west-1/", "aws/evil.example/a",
		"aws/eu-west-1/../a",
		"aws/eu-west-1/a b", "oracle/a/b", "google/acme/a/b/c", "google/acme/a:access?x", "google/a/../b",
		"azure/a.evil.example/b",
		"azure/acme/a_b", "azure/acme/a#b", "AWS/eu-west-1/a", "aws/eu-west-1//a"} {
		errs := managed(bad, "")
		require.Len(t, errs, 1, bad)
		require.Equal(t, "credential.secret_manager.name", errs[0].Field)
	}
	require.Equal(t, "credential.secret_manager.field", managed("aws/eu-west-1/a", "a\nb")[0].Field)
	as := func(who string) configv1.Errors {
		return errsOf(&configv1.Credential{Source: &configv1.Credential_WorkloadIdentity{
			WorkloadIdentity: &configv1.WorkloadIdentity{As: who}}})
	}
	for _, good := range []string{"", "arn:aws:iam::123456789012:role/a/b", "models@acme.iam.gserviceaccount.com",
		"11111111-2222-3333-4444-555555555555"} {
		require.Empty(t, as(good), good)
	}
	for _, bad := range []string{"a b", "a\nb", "a=b", "*", "a,b", strings.Repeat("a", 257)} {
		require.Equal(t, "credential.workload_identity.as", as(bad)[0].Field, bad)
	}
}

func TestACertificateIssuerHasAuthoritiesAndBindings(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, &key.PublicKey, key)
	require.NoError(t, err)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	authority, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	der, err = x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1),
		NextUpdate: time.Now().Add(time.Hour)}, authority, key)
	require.NoError(t, err)
	crl := string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
	good := func(change func(*configv1.CertificateIssuer)) *configv1.CertificateIssuer {
		c := &configv1.CertificateIssuer{Name: "mesh", Ca: ca, Crl: crl, Proxies: []string{"spiffe://m/edge"},
			Bindings: []*configv1.CertificateBinding{{Key: "key_1", Identity: "spiffe://m/*"}}}
		if change != nil {
			change(c)
		}
		return c
	}
	require.Empty(t, configv1.Validate(good(nil), knownVendor))
	for field, change := range map[string]func(*configv1.CertificateIssuer){
		"ca":                   func(c *configv1.CertificateIssuer) { c.Ca = crl },
		"crl":                  func(c *configv1.CertificateIssuer) { c.Crl = ca },
		"gateway":              func(c *configv1.CertificateIssuer) { c.Gateway = "A b" },
		"proxies[0]":           func(c *configv1.CertificateIssuer) { c.Proxies[0] = "*" },
		"bindings":             func(c *configv1.CertificateIssuer) { c.Bindings = nil },
		"bindings[0].key":      func(c *configv1.CertificateIssuer) { c.Bindings[0].Key = "" },
		"bindings[0].identity": func(c *configv1.CertificateIssuer) { c.Bindings[0].Identity = "**" },
	} {
		errs := configv1.Validate(good(change), knownVendor)
		require.Len(t, errs, 1, field)
		require.Equal(t, field, errs[0].Field)
	}
	other := good(func(c *configv1.CertificateIssuer) { c.Name, c.Gateway = "other", "default" })
	errs := configv1.ValidateConflicts([]configv1.Object{good(nil), other})
	require.Len(t, errs, 1)
	require.Equal(t, "gateway", errs[0].Field)
	other.Disabled = true
	require.Empty(t, configv1.ValidateConflicts([]configv1.Object{good(nil), other}))
}
