package crd_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/modelgate/modelgate/api/config/crd"
	"github.com/modelgate/modelgate/api/config/options"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// The definitions that the chart ships are those that the messages state: go generate ./api/config/crd.
func TestDefinitionsAreCurrent(t *testing.T) {
	const folder = "../../../charts/modelgate/definitions"
	shipped, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	require.NoError(t, err)
	require.Len(t, shipped, len(crd.Kinds()))
	for _, k := range crd.Kinds() {
		text, err := os.ReadFile(filepath.Join(folder, k.Plural+".yaml"))
		require.NoError(t, err)
		want, err := crd.Definition(k)
		require.NoError(t, err)
		require.Equal(t, string(want), string(text), "run go generate ./api/config/crd")
	}
}

// A kind without a short name is not in Kubernetes. That has to be on purpose.
func TestOnlyWhatTheGatewayWritesIsNotInKubernetes(t *testing.T) {
	var absent []string
	seen := map[string]string{}
	for _, k := range configv1.Kinds() {
		short := k.Options.GetShort()
		if short == "" {
			absent = append(absent, k.Name)
			continue
		}
		require.Empty(t, seen[short], "the short name of %s is that of another kind", k.Name)
		seen[short] = k.Name
	}
	require.ElementsMatch(t, []string{"Listing", "IdentityGroup"}, absent)
}

func TestReferencesNameKinds(t *testing.T) {
	messages := configv1.File_api_config_v1_config_proto.Messages()
	for i := range messages.Len() {
		for j := range messages.Get(i).Fields().Len() {
			fd := messages.Get(i).Fields().Get(j)
			if kind := options.Of(fd).GetRefers(); kind != "" {
				_, ok := configv1.FindKind(kind)
				require.True(t, ok, "%s refers to %s", fd.FullName(), kind)
				require.Equal(t, protoreflect.StringKind, fd.Kind(), fd.FullName())
			}
		}
	}
}

// No definition lets somebody write a secret in clear, or what only the gateway sets.
func TestSecretsAreOnlyReferences(t *testing.T) {
	text, err := crd.Definition(configv1.KindOf((*configv1.Provider)(nil)))
	require.NoError(t, err)
	require.Contains(t, string(text), "secret_key_ref:")
	require.NotContains(t, string(text), "sealed:")
	text, err = crd.Definition(configv1.KeyKind())
	require.NoError(t, err)
	require.NotContains(t, string(text), "hash:")
}
