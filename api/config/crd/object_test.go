package crd_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/modelgate/modelgate/api/config/crd"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestAnExportIsObjectsOfKubernetes(t *testing.T) {
	sealed := &configv1.Credential{Source: &configv1.Credential_Sealed{Sealed: configv1.Redacted}}
	for _, c := range []struct {
		object  configv1.Object
		text    string
		missing []crd.Missing
	}{
		{&configv1.Provider{Name: "openai", Vendor: "openai", Credential: sealed, Models: []string{"a"}},
			`apiVersion: modelgate.dev/v1alpha1
kind: Provider
metadata:
  name: openai
  namespace: platform
spec:
  credential:
    secret_key_ref:
      key: credential
      name: provider-openai
  models:
  - a
  vendor: openai
`, []crd.Missing{{Secret: "provider-openai", Key: "credential"}}},
		{&configv1.Model{Name: "OpenAI/GPT", CreatedAt: timestamppb.Now(),
			Targets: []*configv1.Target{{Provider: "openai", Model: "m"}}},
			`apiVersion: modelgate.dev/v1alpha1
kind: Model
metadata:
  name: openai-gpt-4b74fec3
  namespace: platform
spec:
  name: OpenAI/GPT
  targets:
  - model: m
    provider: openai
`, nil},
		{&configv1.Gateway{Name: "edge", MaxRequestBytes: 1 << 20}, `apiVersion: modelgate.dev/v1alpha1
kind: Gateway
metadata:
  name: edge
  namespace: platform
spec:
  max_request_bytes: 1048576
`, nil},
		{&configv1.Catalog{Name: "default", Version: "1"}, `apiVersion: modelgate.dev/v1alpha1
kind: Catalog
metadata:
  name: default
  namespace: platform
spec:
  version: "1"
`, nil},
	} {
		text, missing, ok, err := crd.Object(c.object, "platform", false)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, c.text, string(text))
		require.Equal(t, c.missing, missing)
	}
	_, _, ok, err := crd.Object(&configv1.Key{Name: "key_1"}, "", false)
	require.NoError(t, err)
	require.False(t, ok, "Kubernetes makes another key")
}
