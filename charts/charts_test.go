// Package charts_test checks the Helm chart without a cluster: it renders every example and the forms below, decodes
// what comes out as Kubernetes does, and holds it against the binary, the profile "restricted", the arrows of the
// drawing and the schema of the values. What only a cluster can show is in test/kubernetes.
//
// Nothing is looked up in a rendered text. A check goes over typed objects, so that a field
// which Kubernetes would drop without a word fails here.
package charts_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/strvals"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	kubernetes "k8s.io/client-go/kubernetes/scheme"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

const (
	chartDir    = "modelgate"
	releaseName = "gw"
	namespace   = "models"
)

// forms are values beside the examples, so that every branch of a template is rendered by one of them.
var forms = map[string]string{
	"as it stands": ``,
	"everything bundled and kept": `
dataplane: {replicas: 2, autoscaling: {enabled: true}}
controlplane: {replicas: 2, ingress: {enabled: true, hosts: [admin.example.com], tlsSecret: admin-tls, className: nginx}}
etcd: {bundled: {persistence: {enabled: true}}}
redis: {bundled: {enabled: true}}
postgresql: {bundled: {enabled: true, persistence: {enabled: true}}}
jobsvc: {persistence: {enabled: true}}
imagePullSecrets: [registry]
commonLabels: {team: models}
networkPolicy:
  monitoring: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
  admins: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: people}}}]
monitoring: {monitors: {enabled: true}, rules: {enabled: true}, dashboards: {enabled: true}}
`,
	"one ledger on a volume": `
controlplane: {persistence: {enabled: true}}
`,
	"an Ingress": `
gateway: {ingress: {enabled: true, hosts: [models.example.com], tlsSecret: models-tls, annotations: {a: b}}}
`,
	"a TLSRoute": `
gateway: {gatewayAPI: {enabled: true, parentRefs: [{name: edge}], hostnames: [models.example.com]}}
`,
	"an HTTPRoute": `
gateway: {gatewayAPI: {enabled: true, kind: HTTPRoute, parentRefs: [{name: edge}], backendTLS: {caConfigMap: gateway-ca}}}
`,
	"given certificates": `
pki: {mode: secrets, secrets: {controlplane: cp-tls, dataplane: dp-tls, internal: in-tls, jobsvc: jobs-tls}}
gateway: {certificate: {source: secret, secretName: public-tls}}
rootSecret: {existingSecret: root}
`,
	"certificates by cert-manager": `
pki: {mode: certManager}
gateway: {certificate: {source: certManager}}
redis: {bundled: {enabled: true}}
postgresql: {bundled: {enabled: true}}
`,
	"ext_proc alone, scaled": `
extproc: {standalone: {enabled: true, autoscaling: {enabled: true}}}
redis: {url: "redis://redis.stores:6379", passwordSecret: {name: redis}}
networkPolicy: {mesh: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: mesh}}}]}
`,
	"an archive in a bucket": `
controlplane: {readArchive: true, providerSecrets: [openai]}
jobsvc: {archive: {after: 1h, keep: 720h}, storedResponses: {enabled: true, retention: 7200s}, blobs: {url: "s3://jobs?region=eu-central-1", credentialsSecret: bucket}}
networkPolicy: {blobs: {ports: [9000], peers: [{podSelector: {matchLabels: {app: minio}}}]}}
`,
	"objects of Kubernetes": `
kubernetes: {enabled: true, secretNamespaces: [team-a]}
`,
	"objects of some namespaces": `
kubernetes: {enabled: true, definitions: false, namespaces: [team-a, team-b]}
`,
	"the Gateway API": `
kubernetes: {enabled: true, namespaces: [team-a], gatewayAPI: {enabled: true, ports: [{port: 8444, targetPort: 9443}]}}
`,
	"a mesh, and everybody in it": `
istio: {enabled: true}
jobsvc: {enabled: false}
dataplane: {podLabels: {team: models}, podAnnotations: {sidecar.istio.io/proxyCPU: 100m}}
`,
	"what may be left out, left out": `
jobsvc: {enabled: false}
echo: {enabled: false}
tests: {enabled: false}
networkPolicy: {enabled: false}
`,
}

// releases returns the values of every example and form.
func releases(t *testing.T) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for name, text := range forms {
		all[name] = parseValues(t, text)
	}
	paths, err := filepath.Glob(filepath.Join(chartDir, "examples", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		all["examples/"+filepath.Base(path)] = parseValues(t, string(text))
	}
	return all
}

func parseValues(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	require.NoError(t, sigsyaml.UnmarshalStrict([]byte(text), &values))
	return values
}

// form returns the values of one form, changed as `helm --set` would.
func form(t *testing.T, name string, set ...string) map[string]any {
	t.Helper()
	require.Contains(t, forms, name)
	values := parseValues(t, forms[name])
	for _, s := range set {
		require.NoError(t, strvals.ParseInto(s, values))
	}
	return values
}

// eachRelease runs a check for every release.
func eachRelease(t *testing.T, check func(*testing.T, []object)) {
	t.Helper()
	all := releases(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, render(t, all[name]))
		})
	}
}

// An object is one of those that a release consists of.
type object struct {
	template string // that it came from
	text     []byte
	typed    runtime.Object
}

// render renders a release and decodes it. Fields that Kubernetes does not know fail.
func render(t *testing.T, values map[string]any) []object {
	t.Helper()
	return renderAs(t, releaseName, namespace, values)
}

func renderAs(t *testing.T, release, namespace string, values map[string]any) []object {
	t.Helper()
	files, err := renderText(release, namespace, values)
	require.NoError(t, err)
	var all []object
	decoder := serializer.NewCodecFactory(scheme(t), serializer.EnableStrict).UniversalDeserializer()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(path) != ".yaml" {
			continue
		}
		for _, text := range parted(t, files[path]) {
			typed, _, err := decoder.Decode(text, nil, nil)
			require.NoError(t, err, "%s:\n%s", path, text)
			all = append(all, object{path, text, typed})
		}
	}
	return all
}

// parted returns the documents of a YAML stream that have something in them.
func parted(t *testing.T, stream string) (all [][]byte) {
	t.Helper()
	for r := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(stream))); ; {
		text, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if !empty(t, text) {
			all = append(all, text)
		}
	}
}

// empty reports whether a document is nothing but comments.
func empty(t *testing.T, text []byte) bool {
	t.Helper()
	var content any
	require.NoError(t, sigsyaml.Unmarshal(text, &content), string(text))
	return content == nil || len(bytes.TrimSpace(text)) == 0
}

// renderText renders a release as Helm does, values checked against the schema. Without a cluster nothing is looked
// up.
func renderText(release, namespace string, values map[string]any) (map[string]string, error) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// scheme knows the kinds of Kubernetes, cert-manager, the Prometheus operator and the Gateway API, by their own types, and
// those of Istio by name.
func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetes.AddToScheme, certmanagerv1.AddToScheme,
		monitoringv1.AddToScheme, gatewayv1.Install, apiextensionsv1.AddToScheme, addIstio} {
		require.NoError(t, add(s))
	}
	return s
}

// all returns the objects of one kind.
func all[T runtime.Object](objects []object) []T {
	var found []T
	for _, o := range objects {
		if typed, ok := o.typed.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}
