package objects_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/modelgate/modelgate/api/config/crd"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/test/harness"
)

const (
	accepted   = "Accepted True Accepted"
	programmed = "Programmed True Programmed"
)

// local is a provider that answers.
const local = `{vendor: echo, endpoint: "http://127.0.0.1:9"}`

// secret returns a Secret.
func secret(at, key, value string) string {
	namespace, name := filepath.Split(at)
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {namespace: %s, name: %s}\nstringData: {%s: %q}\n",
		filepath.Clean(namespace), name, key, value)
}

// start returns a cluster with a namespace of the platform's, and a gateway that takes its objects.
func start(t *testing.T) (*cluster, *harness.Gateway) {
	t.Helper()
	c := newCluster(t)
	c.namespace(t, "platform", "")
	return c, c.gateway(t, "admin")
}

// TestEveryKindIsAnObject: each is taken, with what it refers to, and the data plane has it.
func TestEveryKindIsAnObject(t *testing.T) {
	c, g := start(t)
	pair, err := certs.Ensure(t.TempDir(), []string{"localhost"}, time.Now())
	require.NoError(t, err)
	authority, err := os.ReadFile(filepath.Join(g.Dir, "ca.crt"))
	require.NoError(t, err)
	tls, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "Secret",
		"metadata":   map[string]string{"namespace": "platform", "name": "edge-tls"},
		"stringData": map[string]string{"tls.crt": string(pair.Certificate), "tls.key": string(pair.Key)}})
	require.NoError(t, err)
	bundle, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]string{"namespace": "platform", "name": "authority"},
		"data":     map[string]string{"ca.crt": string(authority)}})
	require.NoError(t, err)
	text, err := os.ReadFile("testdata/every-kind.yaml")
	require.NoError(t, err)
	var jobs struct{ Address, Listen string } // those of this gateway
	shownJobs := harness.Must(t, "", "config", "get", "--data", g.Dir, "jobservice", "default", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(shownJobs), &jobs))
	text = bytes.ReplaceAll(text, []byte("unix:///run/modelgate/jobs.sock"), []byte(jobs.Address))
	text = bytes.ReplaceAll(text, []byte("unix:///run/modelgate/lines.sock"), []byte(jobs.Listen))
	documents := append(strings.Split(string(text), "\n---\n"), string(tls), string(bundle))
	c.apply(t, documents...)

	seen := map[string]bool{}
	for _, d := range documents {
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(d), &o.Object))
		if o.GroupVersionKind().Group != crd.Group {
			continue
		}
		seen[o.GetKind()] = true
		at := o.GetNamespace() + "/" + o.GetName()
		c.has(t, o.GetKind(), at, accepted)
		c.has(t, o.GetKind(), at, "ResolvedRefs True ResolvedRefs")
		c.has(t, o.GetKind(), at, programmed)
	}
	for _, k := range crd.Kinds() {
		require.True(t, seen[k.Name], "testdata/every-kind.yaml has no %s", k.Name)
	}
	shown := harness.Must(t, "", "config", "get", "--data", g.Dir, "Model", "OpenAI/GPT", "-o", "json")
	require.Contains(t, shown, "kubernetes:platform/gpt")
	require.NotContains(t, harness.Must(t, "", "config", "export", "--data", g.Dir), "sk-of-the-vendor")
}

// TestWhatCELCanSayIsRefusedAtAdmission: nothing of it reaches the control plane.
func TestWhatCELCanSayIsRefusedAtAdmission(t *testing.T) {
	c := newCluster(t)
	for name, bad := range map[string]struct{ kind, spec, why string }{
		"missing":           {"Provider", `{endpoint: "https://x"}`, "spec.vendor"},
		"unknown field":     {"Provider", `{vendor: openai, endpont: "https://x"}`, "unknown field"},
		"enum":              {"Provider", `{vendor: openai, unsupported_parameters: MAYBE}`, "Unsupported value"},
		"two sources":       {"Provider", `{vendor: openai, credential: {env: A, file: /b}}`, "exactly one of"},
		"no source":         {"Provider", `{vendor: openai, credential: {}}`, "exactly one of"},
		"secret in clear":   {"Provider", `{vendor: openai, credential: {value: sk-1}}`, "value"},
		"duration":          {"Provider", `{vendor: openai, timeouts: {connect: 25h}}`, "connect"},
		"long duration":     {"Provider", `{vendor: openai, timeouts: {connect: 90000s}}`, "at most 24 h"},
		"range":             {"Model", `{targets: [{provider: p, model: m, priority: 128}]}`, "priority"},
		"empty list":        {"Model", `{targets: []}`, "targets"},
		"bad name":          {"Model", `{name: "-x", targets: [{provider: p, model: m}]}`, "spec.name"},
		"needs another":     {"Guardrail", `{project: p, rules: [{name: a, mode: BLOCK}]}`, "needs an organization"},
		"twice":             {"Guardrail", `{rules: [{name: a, mode: BLOCK}, {name: a, mode: MASK}]}`, "Duplicate"},
		"twice in a list":   {"Provider", `{vendor: openai, models: [a, a]}`, "Duplicate"},
		"domain":            {"RateLimit", `{domain: cakes, descriptors: [{key: user}]}`, "Unsupported value"},
		"hash":              {"Key", `{display_name: x, hash: AAAA}`, "hash"},
		"seconds":           {"Retention", `{requests: 10s}`, "must be between"},
		"neither nor":       {"CertificateIssuer", `{bindings: [{key: k, identity: "spiffe://x"}]}`, "ca or ca_from"},
		"of either of two":  {"Checker", `{type: CHAT, url: "https://x", ca: "-----BEGIN CERTIFICATE-----", ca_from: {secret_key_ref: {name: a, key: b}}}`, "not both"},
		"project's name":    {"Project", `{display_name: x}`, "spec.name"},
		"number as a text":  {"Gateway", `{port: "8443"}`, "port"},
		"negative":          {"Gateway", `{port: -1}`, "port"},
		"least of a window": {"Guardrail", `{window: 5, rules: [{name: a, mode: BLOCK}]}`, "window"},
	} {
		err := c.create(t, object(bad.kind, "default/bad", bad.spec))
		require.ErrorContains(t, err, bad.why, name)
	}
	c.apply(t, object("Model", "default/kept", `{name: one, targets: [{provider: p, model: m}]}`))
	_, err := c.try(t, object("Model", "default/kept", `{name: two, targets: [{provider: p, model: m}]}`))
	require.ErrorContains(t, err, "name cannot change")
}

// TestWhatIsWrongIsInAConditionAndTheLastGoodVersionStays: what the API server cannot check.
func TestWhatIsWrongIsInAConditionAndTheLastGoodVersionStays(t *testing.T) {
	c, g := start(t)
	c.apply(t, object("Model", "platform/early", `{targets: [{provider: late, model: m}]}`))
	c.apply(t, object("Policy", "platform/cel", `{rules: [{name: a, deny: "nobody.knows"}]}`))
	why := c.has(t, "Model", "platform/early", "ResolvedRefs False NotFound")
	require.Contains(t, why, "Provider late does not exist")
	require.Contains(t, c.has(t, "Policy", "platform/cel", "Accepted False Invalid"), "nobody")
	// The rest of what came with it is taken, and what waited is when it can be.
	c.apply(t, object("Provider", "platform/late", local))
	c.has(t, "Model", "platform/early", programmed)

	c.apply(t, object("Provider", "platform/late", `{vendor: nobody, endpoint: "http://127.0.0.1:9"}`))
	c.has(t, "Provider", "platform/late", "Accepted False Invalid")
	require.Contains(t, c.has(t, "Provider", "platform/late", "Programmed False LastGood"), "stays in force")
	require.Contains(t, harness.Must(t, "", "config", "get", "--data", g.Dir, "provider", "late"), "vendor: echo")

	c.delete(t, "Provider", "platform", "late") // which a model still uses
	c.has(t, "Model", "platform/early", programmed)
	c.delete(t, "Model", "platform", "early")
	gone(t, g, "model", "early")
	c.apply(t, object("ApprovalRule", "platform/new-keys", "{keys: true}"))
	c.has(t, "ApprovalRule", "platform/new-keys", accepted)
	c.apply(t, object("Key", "platform/waits", "{display_name: waits}"))
	require.Contains(t, c.has(t, "Key", "platform/waits", "Accepted False WaitsForApproval"), "new-keys")
	gone(t, g, "provider", "late")
}

// gone waits until the configuration has no such object.
func gone(t *testing.T, g *harness.Gateway, kind, name string) {
	t.Helper()
	harness.Eventually(t, kind+" "+name+" is gone", func() error {
		if out, err := harness.Command(t, "", "config", "get", "--data", g.Dir, kind, name); err == nil {
			return fmt.Errorf("it is there: %s", out)
		}
		return nil
	})
}

// TestAnObjectAndTheAPIDoNotOverwriteEachOther.
func TestAnObjectAndTheAPIDoNotOverwriteEachOther(t *testing.T) {
	c, g := start(t)
	apply := func(document string, flags ...string) (string, error) {
		return harness.Command(t, document, append([]string{"config", "apply", "--data", g.Dir, "-f", "-"}, flags...)...)
	}
	_, err := apply("kind: Provider\nname: shared\nvendor: echo\nendpoint: http://127.0.0.1:9\n")
	require.NoError(t, err)
	c.apply(t, object("Provider", "platform/shared", local))
	require.Contains(t, c.has(t, "Provider", "platform/shared", "Accepted False Conflict"), "admin API or a file")

	taking := strings.Replace(object("Provider", "platform/shared", local), "name: shared",
		`name: shared, annotations: {modelgate.dev/take-over: "true"}`, 1)
	c.apply(t, taking)
	c.has(t, "Provider", "platform/shared", accepted)
	out, err := apply("kind: Provider\nname: shared\nvendor: echo\nendpoint: http://127.0.0.1:10\n")
	require.Error(t, err)
	require.Contains(t, out, "is declared by kubernetes:platform/shared")
	out, err = harness.Command(t, "", "config", "delete", "--data", g.Dir, "provider", "shared")
	require.Error(t, err)
	require.Contains(t, out, "is declared by kubernetes:platform/shared")

	c.apply(t, object("Provider", "platform/shared", local)) // without the annotation
	_, err = apply("kind: Provider\nname: shared\nvendor: echo\nendpoint: http://127.0.0.1:10\n", "--take-over")
	require.NoError(t, err)
	c.has(t, "Provider", "platform/shared", "Accepted False Conflict")
	// Of two objects of one name, the first has it.
	c.apply(t, object("Provider", "platform/first", local), object("Model", "platform/a",
		`{name: same, targets: [{provider: first, model: m}]}`))
	c.has(t, "Model", "platform/a", accepted)
	c.apply(t, object("Model", "platform/b", `{name: same, targets: [{provider: first, model: m}]}`))
	require.Contains(t, c.has(t, "Model", "platform/b", "Accepted False Conflict"), "kubernetes:platform/a")
	c.delete(t, "Model", "platform", "a")
	c.has(t, "Model", "platform/b", programmed)
}

// TestSecretsAreFollowed, also when they vanish.
func TestSecretsAreFollowed(t *testing.T) {
	c, g := start(t)
	c.apply(t, object("Provider", "platform/p",
		`{vendor: openai, credential: {secret_key_ref: {name: vendor, key: token}}}`))
	require.Contains(t, c.has(t, "Provider", "platform/p", "ResolvedRefs False SecretNotFound"), "Secret platform/vendor")
	c.apply(t, secret("platform/vendor", "other", "x"))
	c.has(t, "Provider", "platform/p", "ResolvedRefs False KeyNotFound")
	c.apply(t, secret("platform/vendor", "token", "sk-1"))
	c.has(t, "Provider", "platform/p", programmed)
	sealed := func() string {
		var o struct {
			Status struct{ Revision json.Number }
		}
		require.NoError(t, json.Unmarshal([]byte(harness.Must(t, "", "config", "get", "--data", g.Dir, "provider", "p", "-o",
			"json")), &o))
		return o.Status.Revision.String()
	}
	before := sealed()
	c.apply(t, secret("platform/vendor", "token", "sk-2"))
	harness.Eventually(t, "the new secret is stored", func() error {
		if sealed() == before {
			return fmt.Errorf("it is as before")
		}
		return nil
	})
	before = sealed()
	c.delete(t, "Secret", "platform", "vendor")
	c.has(t, "Provider", "platform/p", "ResolvedRefs False SecretNotFound")
	c.has(t, "Provider", "platform/p", accepted)
	c.has(t, "Provider", "platform/p", "Programmed True LastGood")
	require.Equal(t, before, sealed())
}

// TestAKeyMakesItsSecretOnceAndRotatesIt, and what is in the Secret authenticates.
func TestAKeyMakesItsSecretOnceAndRotatesIt(t *testing.T) {
	c, g := start(t)
	chat := func(key string) int {
		return g.As(key).Do(t, "POST", "/v1/chat/completions",
			`{"model": "echo/echo", "messages": [{"role": "user", "content": "hello"}]}`).Status
	}
	inSecret := func() string {
		o, err := c.on("Secret", "platform").Get(t.Context(), "web-key", metav1.GetOptions{})
		require.NoError(t, err)
		text, _, _ := unstructured.NestedString(o.Object, "data", "api-key")
		plain, err := base64.StdEncoding.DecodeString(text)
		require.NoError(t, err)
		return string(plain)
	}
	c.apply(t, object("Key", "platform/web", `{display_name: web}`))
	c.has(t, "Key", "platform/web", programmed)
	require.Equal(t, "web-key", c.status(t, "Key", "platform/web", "secret"))
	first := inSecret()
	require.Equal(t, 200, chat(first))
	c.apply(t, object("Key", "platform/web", `{display_name: web page}`))
	c.has(t, "Key", "platform/web", programmed)
	require.Equal(t, first, inSecret())

	c.apply(t, strings.Replace(object("Key", "platform/web", `{display_name: web page}`), "name: web}",
		`name: web, annotations: {modelgate.dev/rotate: "2"}}`, 1))
	harness.Eventually(t, "there is another key, and it is good", func() error {
		if second := inSecret(); second == first || chat(second) != 200 {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	require.Equal(t, 200, chat(first), "the key before stays good for a while")
	c.delete(t, "Key", "platform", "web")
	harness.Eventually(t, "it is revoked", func() error {
		if chat(first) != 401 {
			return fmt.Errorf("it is not")
		}
		return nil
	})
}

// TestAnExportIsTaken: what is there becomes objects, which then have it.
func TestAnExportIsTaken(t *testing.T) {
	c, g := start(t)
	harness.Must(t, `kind: Organization
name: acme
limits: [{domain: tokens, unit: DAY, requests_per_unit: 5000000000}]
---
kind: Project
name: acme/search
---
kind: Provider
name: vendor
vendor: openai
credential: {value: sk-1}
---
kind: Model
name: OpenAI/GPT
targets: [{provider: vendor, model: gpt-5}]
`, "config", "apply", "--data", g.Dir, "-f", "-")
	out := harness.Must(t, "", "config", "export", "--data", g.Dir, "--kubernetes", "--namespace", "platform",
		"--take-over")
	require.NotContains(t, out, "sk-1")
	require.Contains(t, out, "# Make the Secret provider-vendor with the key credential")
	c.apply(t, secret("platform/provider-vendor", "credential", "sk-1"))
	taken := 0
	for _, d := range strings.Split(out, "\n---\n")[1:] {
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(d), &o.Object))
		if o.GetName() == "default" && o.GetKind() == "Certificate" {
			continue // whose key is in no Secret
		}
		c.apply(t, d)
		c.has(t, o.GetKind(), "platform/"+o.GetName(), accepted)
		taken++
	}
	require.GreaterOrEqual(t, taken, 6)
	require.Contains(t, harness.Must(t, "", "config", "get", "--data", g.Dir, "model", "OpenAI/GPT", "-o", "json"),
		"kubernetes:platform/openai-gpt-")
}
