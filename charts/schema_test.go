package charts_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sigsyaml "sigs.k8s.io/yaml"
)

// TestBadValuesAreRefused: each by a message that names the field.
func TestBadValuesAreRefused(t *testing.T) {
	cases := []struct{ name, set, field string }{
		{"a value that nobody reads", "dataplane.replica=2", "replica"},
		{"a section that nobody reads", "envoy.replicas=2", "envoy"},
		{"no replicas", "dataplane.replicas=0", "replicas"},
		{"fewer than no replicas", "controlplane.replicas=-1", "replicas"},
		{"replicas in words", "jobsvc.replicas=two", "replicas"},
		{"an image without a name", "image.repository=", "repository"},
		{"a digest that is none", "image.digest=sha256:abc", "digest"},
		{"an unknown pull policy", "image.pullPolicy=Sometimes", "pullPolicy"},
		{"Envoy's digest that is none", "dataplane.envoy.image.digest=latest", "digest"},
		{"an unknown log level", "log.level=loud", "level"},
		{"an unknown way to make certificates", "pki.mode=magic", "mode"},
		{"certificates that are not given", "pki.mode=secrets", "controlplane"},
		{"a gateway's certificate that is not given", "gateway.certificate.source=secret", "secretName"},
		{"a public issuer without names", "gateway.certificate.source=certManager,gateway.certificate.issuerRef.name=public",
			"dnsNames"},
		{"a port beyond all", "gateway.service.port=70000", "port"},
		{"an unknown type of Service", "gateway.service.type=Magic", "type"},
		{"an Ingress of no host", "gateway.ingress.enabled=true", "hosts"},
		{"a route without a parent", "gateway.gatewayAPI.enabled=true", "parentRefs"},
		{"an unknown kind of route", "gateway.gatewayAPI.kind=UDPRoute", "kind"},
		{"a collector without a scheme", "telemetry.otlp.endpoint=collector:4317", "endpoint"},
		{"an unknown protocol", "telemetry.otlp.protocol=carrier-pigeon", "protocol"},
		{"a drain of negative length", "dataplane.drain.graceSeconds=-1", "graceSeconds"},
		{"a drain in words", "dataplane.drain.shutdownDelaySeconds=10s", "shutdownDelaySeconds"},
		{"an unknown answer while Redis is away", "extproc.limitsFailure=maybe", "limitsFailure"},
		{"a size that is none", "extproc.spoolSize=large", "spoolSize"},
		{"memory that is no number", "dataplane.envoy.maxHeap=1Gi", "maxHeap"},
		{"two control planes on one SQLite", "controlplane.replicas=2", "replicas"},
		{"two data planes that count apart", "dataplane.replicas=2", "replicas"},
		{"data planes that scale and count apart", "dataplane.autoscaling.enabled=true", "enabled"},
		{"two job services on one folder", "jobsvc.replicas=2", "replicas"},
		{"a job service without a data plane", "dataplane.enabled=false", "enabled"},
		{"no etcd at all", "etcd.bundled.enabled=false", "endpoints"},
		{"two etcds", "etcd.endpoints[0]=https://etcd:2379", "endpoints"},
		{"an etcd without TLS", "etcd.bundled.enabled=false,etcd.endpoints[0]=http://etcd:2379,etcd.tls.secretName=x",
			"endpoints"},
		{"an etcd that does not know its clients", "etcd.bundled.enabled=false,etcd.endpoints[0]=https://etcd:2379",
			"secretName"},
		{"two Redis", "redis.bundled.enabled=true,redis.url=redis://redis:6379", "url"},
		{"a Redis that is none", "redis.url=http://redis:6379", "url"},
		{"two PostgreSQL", "postgresql.bundled.enabled=true,postgresql.url=postgres://db/modelgate", "url"},
		{"a ledger that is none", "postgresql.url=mysql://db/modelgate", "url"},
		{"a bucket that is none", "jobsvc.blobs.url=ftp://blobs", "url"},
		{"a time to archive that is none", "jobsvc.archive.after=soon", "after"},
		{"an archive in a folder of another's", "controlplane.readArchive=true", "url"},
		{"a network that is none", "jobsvc.webhookNetworks[0]=everywhere", "webhookNetworks"},
		{"peers that are none", "networkPolicy.clients[0].pod=x", "clients"},
		{"a port of providers that is none", "networkPolicy.providers.ports[0]=0", "ports"},
		{"an object without a kind", "config[0].name=x", "config"},
		{"a ConfigMap without a key", "configFrom[0].name=x", "configFrom"},
		{"sources of an AuthorizationPolicy that are none", "istio.clients[0].namespace=team-a", "clients"},
		{"Envoy Gateway that cannot ask ext_proc", "envoyGateway.enabled=true,kubernetes.enabled=true", "standalone"},
		{"Envoy Gateway that hears of no change", "envoyGateway.enabled=true,extproc.standalone.enabled=true",
			"kubernetes"},
		{"monitors in words", "monitoring.monitors.enabled=please", "enabled"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := renderText(releaseName, namespace, form(t, "as it stands", c.set))
			require.ErrorContains(t, err, c.field)
			require.ErrorContains(t, err, "schema", "a template failed, and not the check of the values")
		})
	}
}

// A schema is the part of JSON Schema that says which values there are.
type schema struct {
	Ref                  string            `json:"$ref"`
	Properties           map[string]schema `json:"properties"`
	AdditionalProperties json.RawMessage   `json:"additionalProperties"`
	Type                 any               `json:"type"`
	Enum                 []any             `json:"enum"`
	AnyOf                []schema          `json:"anyOf"`
	Const                any               `json:"const"`
	Defs                 map[string]schema `json:"$defs"`
}

// TestValuesSchemaAndTemplatesNameTheSame: what values.yaml shows is all there is, the schema knows each of it, and a
// template names it.
func TestValuesSchemaAndTemplatesNameTheSame(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartDir, "values.schema.json"))
	require.NoError(t, err)
	var root schema
	require.NoError(t, json.Unmarshal(text, &root))
	text, err = os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	require.NoError(t, err)
	values := map[string]any{}
	require.NoError(t, sigsyaml.UnmarshalStrict(text, &values))
	comparison{root, templates(t)}.compare(t, root, values, "values")
}

// templates returns the text of all of them.
func templates(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(filepath.Join(chartDir, "templates"),
		func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		}))
	return all.String()
}

type comparison struct {
	root      schema
	templates string
}

func (c comparison) compare(t *testing.T, s schema, value any, at string) {
	t.Helper()
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		def, ok := c.root.Defs[name]
		require.True(t, ok, "%s: there is no %s", at, s.Ref)
		s = def
	}
	if len(s.Properties) == 0 {
		if s.Type == nil && s.Enum == nil && s.AnyOf == nil && s.Const == nil {
			t.Errorf("%s: the schema says nothing of it", at)
		}
		return
	}
	values, ok := value.(map[string]any)
	if !ok {
		t.Errorf("%s: the schema has an object where values.yaml has %T", at, value)
		return
	}
	if string(s.AdditionalProperties) != "false" {
		t.Errorf("%s: the schema lets values pass that nobody reads", at)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if _, ok := s.Properties[key]; !ok {
			t.Errorf("%s.%s is not in the schema", at, key)
			continue
		}
		c.compare(t, s.Properties[key], values[key], at+"."+key)
		if !regexp.MustCompile(`[."]` + key + `\b`).MatchString(c.templates) {
			t.Errorf("%s.%s is read by no template", at, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		if _, ok := values[key]; !ok && at+"."+key != "values.global" { // which Helm gives to a chart within another
			t.Errorf("%s.%s is not in values.yaml", at, key)
		}
	}
}
