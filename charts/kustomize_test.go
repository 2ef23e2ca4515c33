package charts_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

var update = flag.Bool("update", false, "write the base of Kustomize")

const baseOfKustomize = "kustomize/base"

// TestTheBaseOfKustomizeIsTheChart: it is what the chart renders. -update writes it.
func TestTheBaseOfKustomizeIsTheChart(t *testing.T) {
	values := parseValues(t, readFile(t, filepath.Join(chartDir, "examples", "production.yaml")))
	own := parseValues(t, readFile(t, filepath.Join(baseOfKustomize, "values.yaml")))
	values = loader.MergeMaps(values, own)
	var text strings.Builder
	for _, o := range renderAs(t, "modelgate", "modelgate", values) {
		m, err := meta.Accessor(o.typed)
		require.NoError(t, err)
		if m.GetAnnotations()["helm.sh/hook"] == "" {
			text.WriteString("---\n" + strings.TrimSpace(string(o.text)) + "\n")
		}
	}
	path := filepath.Join(baseOfKustomize, "release.yaml")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o644))
	}
	require.Equal(t, text.String(), readFile(t, path), "go test -run TheBaseOfKustomize -update writes it")
}

// TestAnOverlayOfKustomizeIsBuilt by Kustomize itself: its images and patches are in objects that Kubernetes knows.
func TestAnOverlayOfKustomizeIsBuilt(t *testing.T) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "kustomize/example")
	require.NoError(t, err)
	text, err := built.AsYaml()
	require.NoError(t, err)
	decoder := serializer.NewCodecFactory(scheme(t), serializer.EnableStrict).UniversalDeserializer()
	images, least := map[string]bool{}, int32(0)
	for _, d := range documents(t, string(text)) {
		if strings.HasPrefix(d.GetAPIVersion(), "modelgate.dev/") {
			require.Equal(t, "models", d.GetNamespace())
			continue
		}
		one, err := d.MarshalJSON()
		require.NoError(t, err)
		typed, _, err := decoder.Decode(one, nil, nil)
		require.NoError(t, err, "%s", one)
		switch o := typed.(type) {
		case *appsv1.Deployment:
			for _, c := range slices.Concat(o.Spec.Template.Spec.InitContainers, o.Spec.Template.Spec.Containers) {
				images[c.Image] = true
			}
		case *autoscalingv2.HorizontalPodAutoscaler:
			least = *o.Spec.MinReplicas
		}
	}
	require.Len(t, images, 2)
	for image := range images {
		require.True(t, strings.HasPrefix(image, "registry.internal/"), image)
	}
	require.EqualValues(t, 4, least)
}

// TestWhatGitOpsToolsAreGivenIsThere: each document has a name, and the folders that it takes from this repository.
func TestWhatGitOpsToolsAreGivenIsThere(t *testing.T) {
	var paths []string
	for _, tool := range []string{"argocd.yaml", "flux.yaml"} {
		for _, d := range documents(t, readFile(t, filepath.Join("gitops", tool))) {
			require.NotEmpty(t, d.GetName())
			sources, _, err := unstructured.NestedSlice(d.Object, "spec", "sources")
			require.NoError(t, err)
			for _, s := range sources {
				if path, _ := s.(map[string]any)["path"].(string); path != "" {
					paths = append(paths, path)
				}
			}
			if chart, ok, _ := unstructured.NestedString(d.Object, "spec", "chart", "spec", "chart"); ok {
				paths = append(paths, chart)
			}
		}
	}
	require.Len(t, paths, 2)
	for _, path := range paths {
		require.FileExists(t, filepath.Join("..", path, "Chart.yaml"))
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// documents returns the objects of a YAML stream.
func documents(t *testing.T, text string) (all []unstructured.Unstructured) {
	t.Helper()
	for _, one := range parted(t, text) {
		o := map[string]any{}
		require.NoError(t, yaml.UnmarshalStrict(one, &o))
		all = append(all, unstructured.Unstructured{Object: o})
	}
	return all
}
