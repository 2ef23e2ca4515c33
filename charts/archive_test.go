package charts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestTheArchiveIsWhereTheValuesSay(t *testing.T) {
	of := func(values map[string]any) map[string]corev1.Container {
		found := map[string]corev1.Container{}
		for _, p := range processes(t, render(t, values)) {
			found[p.container.Name] = p.container
		}
		return found
	}
	secrets := func(c corev1.Container) (names []string) {
		for _, from := range c.EnvFrom {
			names = append(names, from.SecretRef.Name)
		}
		return names
	}
	blobs := "--blobs=s3://jobs?region=eu-central-1"
	bucket := of(form(t, "an archive in a bucket"))
	require.Subset(t, bucket["jobsvc"].Args, []string{blobs, "--archive-after=1h", "--archive-keep=720h"})
	require.Contains(t, bucket["controlplane"].Args, blobs)
	require.Equal(t, []string{"openai", "bucket"}, secrets(bucket["controlplane"]))
	require.Contains(t, baseline(t, render(t, form(t, "an archive in a bucket"))), "stored_responses:\n  retention: 7200s")
	require.NotContains(t, baseline(t, render(t, form(t, "as it stands"))), "stored_responses")
	none := of(form(t, "an archive in a bucket", "controlplane.readArchive=false"))
	require.NotContains(t, none["controlplane"].Args, blobs)
	require.Equal(t, []string{"openai"}, secrets(none["controlplane"]), "who reads nothing needs no credential")
	require.Subset(t, of(form(t, "as it stands"))["jobsvc"].Args, []string{"--archive-after=24h", "--archive-keep=2160h"})
}
