package objects_test

import (
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/modelgate/modelgate/controlplane/kubernetes/gatewayapi"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// gatewayAPI installs the definitions of the Gateway API, as its release has them.
func (c *cluster) gatewayAPI(t *testing.T) {
	t.Helper()
	list := exec.Command("go", "list", "-C", "../../charts", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api")
	out, err := list.Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		testenv.Missing(t, "Gateway API", "go -C charts mod download sigs.k8s.io/gateway-api")
	}
	for _, kind := range []string{"gatewayclasses", "gateways", "httproutes", "referencegrants"} {
		text, err := os.ReadFile(filepath.Join(dir, "config/crd/standard", gatewayapi.Group+"_"+kind+".yaml"))
		require.NoError(t, err)
		c.apply(t, string(text))
	}
	for _, kind := range []string{"GatewayClass", ofGatewayAPI, "HTTPRoute"} {
		harness.Eventually(t, kind+" is served", func() error {
			_, err := c.on(kind, "").List(t.Context(), metav1.ListOptions{Limit: 1})
			return err
		})
	}
}

// says waits until a condition of an object, or of a listener or parent of it, is as it is wanted: TYPE STATUS REASON.
func (c *cluster) says(t *testing.T, kind, at, wanted string) (message string) {
	t.Helper()
	namespace, name, _ := strings.Cut(at, "/")
	harness.Eventually(t, kind+" "+at+" says "+wanted, func() error {
		o, err := c.on(kind, namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		parts := []any{o.Object["status"]}
		for _, list := range []string{"listeners", "parents"} {
			more, _, _ := unstructured.NestedSlice(o.Object, "status", list)
			parts = append(parts, more...)
		}
		for _, part := range parts {
			of, _ := part.(map[string]any)
			all, _ := of["conditions"].([]any)
			for _, one := range all {
				m := one.(map[string]any)
				message, _ = m["message"].(string)
				if fmt.Sprint(m["type"], " ", m["status"], " ", m["reason"]) == wanted &&
					m["observedGeneration"] == o.GetGeneration() {
					return nil
				}
			}
		}
		return fmt.Errorf("it says %v", parts)
	})
	return message
}

func ofAPI(kind, at, spec string) string {
	namespace, name, _ := strings.Cut(at, "/")
	return fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata: {namespace: %q, name: %s}\nspec: %s\n", gatewayapi.Group, kind,
		namespace, name, spec)
}

// TestAGatewayAndItsRoutesAreOfTheGatewayAPI: from their objects to requests through Envoy, and to their end.
func TestAGatewayAndItsRoutesAreOfTheGatewayAPI(t *testing.T) {
	c := newCluster(t)
	c.namespace(t, "platform", "")
	c.namespace(t, "team-a", "modelgate.dev/organization: acme")
	c.apply(t, c.rights(t, "kubernetes.gatewayAPI.enabled=true")...)
	g := c.gateway(t, "modelgate", "--kubernetes-gateway-controller", gatewayapi.Controller,
		"--kubernetes-gateway-service", "gw-modelgate-gateway")
	c.apply(t, object("Organization", "platform/acme", "{}"),
		object("Model", "platform/base", "{targets: [{provider: echo, model: echo}]}"))
	c.has(t, "Model", "platform/base", programmed)
	require.NotContains(t, g.Output(), "cannot be watched", "the Gateway API is not there, and nobody asks for it")
	c.gatewayAPI(t)

	dir, port := t.TempDir(), harness.FreePort(t)
	pair, err := certs.Ensure(dir, []string{"localhost"}, time.Now())
	require.NoError(t, err)
	edge, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
		"metadata":   map[string]string{"namespace": "platform", "name": "edge-tls"},
		"stringData": map[string]string{"tls.crt": string(pair.Certificate), "tls.key": string(pair.Key)}})
	require.NoError(t, err)
	const listener = "{name: https, hostname: localhost, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: edge-tls}]}, " +
		"allowedRoutes: {namespaces: {from: All}}}"
	c.apply(t, fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {namespace: platform, name: gw-modelgate-gateway}\n"+
		"spec: {ports: [{port: 443, targetPort: %d}]}\n", port))
	c.apply(t, ofAPI("GatewayClass", "/modelgate", "{controllerName: "+gatewayapi.Controller+"}"),
		ofAPI("Gateway", "platform/edge", "{gatewayClassName: modelgate, listeners: ["+listener+
			", {name: plain, port: 80, protocol: HTTP}]}"))
	c.says(t, "GatewayClass", "/modelgate", "Accepted True Accepted")
	c.says(t, "GatewayClass", "/modelgate", "SupportedVersion True SupportedVersion")
	require.Contains(t, c.says(t, ofGatewayAPI, "platform/edge", "ResolvedRefs False InvalidCertificateRef"), "edge-tls")
	c.apply(t, string(edge))
	c.says(t, ofGatewayAPI, "platform/edge", "Programmed True Programmed")
	c.says(t, ofGatewayAPI, "platform/edge", "Accepted True ListenersNotValid")
	c.says(t, ofGatewayAPI, "platform/edge", "Accepted False UnsupportedProtocol")
	edgeNow, err := c.on(ofGatewayAPI, "platform").Get(t.Context(), "edge", metav1.GetOptions{})
	require.NoError(t, err)
	addresses, _, _ := unstructured.NestedSlice(edgeNow.Object, "status", "addresses")
	require.Len(t, addresses, 1)
	require.Equal(t, "IPAddress", addresses[0].(map[string]any)["type"])

	at := &cases.Gateway{URL: fmt.Sprint("https://localhost:", port), Key: g.Key,
		Client: harness.ClientFor(t, filepath.Join(dir, "ca.crt"))}
	other := &cases.Gateway{URL: fmt.Sprint("https://127.0.0.1:", port), Key: g.Key, Client: at.Client}
	var answer cases.Answer
	const hello = `{"model": %q, "messages": [{"role": "user", "content": "hello"}]}`
	const parent = "parentRefs: [{namespace: platform, name: edge}], "
	require.Equal(t, 404, at.Do(t, "POST", "/v1/chat/completions", fmt.Sprintf(hello, "chat")).Status)
	model := func(at, header, namespace string) string {
		return ofAPI("HTTPRoute", at, "{"+parent+"rules: [{matches: [{headers: [{name: "+header+", value: chat}]}], "+
			"backendRefs: [{group: modelgate.dev, kind: Model, namespace: "+namespace+", name: base}]}]}")
	}
	path := func(at, path string) string {
		return ofAPI("HTTPRoute", at, "{"+parent+"rules: [{matches: [{path: {type: PathPrefix, value: "+path+"}}], "+
			"filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /chat}}}], "+
			"backendRefs: [{group: modelgate.dev, kind: Provider, namespace: platform, name: echo}]}]}")
	}
	c.apply(t, model("platform/chat", "x-gateway-model-name", "platform"), path("platform/raw", "/raw"))
	for _, name := range []string{"platform/chat", "platform/raw"} {
		c.says(t, "HTTPRoute", name, "Accepted True Accepted")
		c.says(t, "HTTPRoute", name, "ResolvedRefs True ResolvedRefs")
	}
	require.Equal(t, 200, at.Do(t, "POST", "/v1/chat/completions", fmt.Sprintf(hello, "chat")).Status)
	require.Equal(t, 200, at.Do(t, "POST", "/raw/completions", fmt.Sprintf(hello, "echo")).Status)
	answer = g.As(g.Key).Do(t, "POST", "/raw/completions", fmt.Sprintf(hello, "echo"))
	require.Equal(t, 404, answer.Status, "the path is that of another Gateway")
	require.Contains(t, string(answer.Body), "does not answer for the path /raw")
	answer = other.Do(t, "POST", "/v1/chat/completions", fmt.Sprintf(hello, "chat"))
	require.Equal(t, 404, answer.Status, "the listener has another name")
	require.Contains(t, string(answer.Body), "Host header")
	require.Contains(t, harness.Must(t, "", "config", "get", "--data", g.Dir, "model", "chat", "-o", "json"),
		"gateway-api:HTTPRoute/platform/chat")

	// What is said already is not written again.
	c.apply(t, path("platform/more", "/more"))
	var before string
	harness.Eventually(t, "three routes are attached", func() error {
		o, err := c.on(ofGatewayAPI, "platform").Get(t.Context(), "edge", metav1.GetOptions{})
		require.NoError(t, err)
		before = o.GetResourceVersion()
		listeners, _, _ := unstructured.NestedSlice(o.Object, "status", "listeners")
		if n := listeners[0].(map[string]any)["attachedRoutes"]; n != int64(3) {
			return fmt.Errorf("there are %v", n)
		}
		return nil
	})
	c.apply(t, path("platform/more", "/others"))
	c.says(t, "HTTPRoute", "platform/more", "Accepted True Accepted")
	edgeNow, err = c.on(ofGatewayAPI, "platform").Get(t.Context(), "edge", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, before, edgeNow.GetResourceVersion())

	// A tenant opens no listener, takes no path of others, and gets nothing that it was not given.
	c.apply(t, ofAPI("Gateway", "team-a/mine", "{gatewayClassName: modelgate, listeners: ["+listener+"]}"),
		path("team-a/stolen", "/raw/completions"), path("team-a/own", "/team-a/raw"),
		model("team-a/chat", "x-gateway-model-name", "platform"), model("team-a/odd", "x-team", "team-a"))
	require.Contains(t, c.says(t, ofGatewayAPI, "team-a/mine", "Accepted False Invalid"), "only the platform")
	c.says(t, "HTTPRoute", "team-a/own", "ResolvedRefs False RefNotPermitted")
	c.says(t, "HTTPRoute", "team-a/chat", "ResolvedRefs False RefNotPermitted")
	c.says(t, "HTTPRoute", "team-a/odd", "ResolvedRefs False BackendNotFound")
	c.apply(t, fmt.Sprintf("apiVersion: %s/v1beta1\nkind: ReferenceGrant\nmetadata: {namespace: platform, name: team-a}\n"+
		"spec: {from: [{group: %[1]s, kind: HTTPRoute, namespace: team-a}], to: [{group: modelgate.dev, kind: Provider, name: echo}]}\n",
		gatewayapi.Group))
	c.says(t, "HTTPRoute", "team-a/own", "Accepted True Accepted")
	require.Contains(t, c.says(t, "HTTPRoute", "team-a/stolen", "Accepted False UnsupportedValue"), "begin with /team-a/")
	c.says(t, "HTTPRoute", "team-a/chat", "ResolvedRefs False RefNotPermitted")
	require.Equal(t, 200, at.Do(t, "POST", "/team-a/raw/completions", fmt.Sprintf(hello, "echo")).Status)
	c.delete(t, "ReferenceGrant", "platform", "team-a")
	c.says(t, "HTTPRoute", "team-a/own", "ResolvedRefs False RefNotPermitted")
	gone(t, g, "route", "team-a--own--0")

	// What is broken leaves what was good, and what is deleted ends.
	c.apply(t, path("platform/raw", "/")) // which has the gateway's own paths
	c.says(t, "HTTPRoute", "platform/raw", "Accepted False UnsupportedValue")
	require.Equal(t, 200, at.Do(t, "POST", "/raw/completions", fmt.Sprintf(hello, "echo")).Status)
	c.delete(t, "HTTPRoute", "platform", "raw")
	c.delete(t, "HTTPRoute", "platform", "chat")
	gone(t, g, "route", "platform--raw--0")
	gone(t, g, "model", "chat")
	c.delete(t, ofGatewayAPI, "platform", "edge")
	gone(t, g, "gateway", "edge--https")
	gone(t, g, "certificate", "edge--https")
	harness.Eventually(t, "nobody listens", func() error {
		conn, err := tls.Dial("tcp", fmt.Sprint("localhost:", port), &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			_ = conn.Close()
			return fmt.Errorf("somebody does")
		}
		return nil
	})
}

// TestTheGatewayAPIOfSomeNamespaces: with the rights for these alone, which the chart gives.
func TestTheGatewayAPIOfSomeNamespaces(t *testing.T) {
	c := newCluster(t)
	c.namespace(t, "platform", "")
	c.namespace(t, "team-a", "modelgate.dev/organization: acme")
	c.gatewayAPI(t)
	c.apply(t, c.rights(t, "kubernetes.gatewayAPI.enabled=true,kubernetes.namespaces={team-a}")...)
	c.apply(t, fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {namespace: platform, name: gw-modelgate-gateway}\n"+
		"spec: {ports: [{port: 443, targetPort: %d}]}\n", harness.FreePort(t)))
	pair, err := certs.Ensure(t.TempDir(), []string{"localhost"}, time.Now())
	require.NoError(t, err)
	edge, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
		"metadata":   map[string]string{"namespace": "platform", "name": "edge-tls"},
		"stringData": map[string]string{"tls.crt": string(pair.Certificate), "tls.key": string(pair.Key)}})
	require.NoError(t, err)
	c.apply(t, string(edge), ofAPI("GatewayClass", "/modelgate", "{controllerName: "+gatewayapi.Controller+"}"),
		ofAPI("Gateway", "platform/edge", "{gatewayClassName: modelgate, listeners: [{name: https, port: 443, protocol: HTTPS, "+
			"tls: {certificateRefs: [{name: edge-tls}]}, allowedRoutes: {namespaces: {from: Selector, selector: "+
			"{matchLabels: {kubernetes.io/metadata.name: team-a}}}}}]}"),
		object("Organization", "platform/acme", "{}"), object("Provider", "platform/p", local),
		fmt.Sprintf("apiVersion: %s/v1beta1\nkind: ReferenceGrant\nmetadata: {namespace: platform, name: team-a}\n"+
			"spec: {from: [{group: modelgate.dev, kind: Model, namespace: team-a}], to: [{group: modelgate.dev, kind: Provider}]}\n",
			gatewayapi.Group),
		object("Model", "team-a/base", "{targets: [{provider: platform/p, model: m}]}"),
		ofAPI("HTTPRoute", "team-a/chat", "{parentRefs: [{namespace: platform, name: edge}], rules: [{matches: "+
			"[{headers: [{name: x-gateway-model-name, value: chat}]}], backendRefs: [{group: modelgate.dev, kind: Model, name: base}]}]}"))
	g := c.gateway(t, "modelgate", "--kubernetes-watch", "team-a", "--kubernetes-gateway-controller",
		gatewayapi.Controller, "--kubernetes-gateway-service", "gw-modelgate-gateway")
	c.says(t, ofGatewayAPI, "platform/edge", "Programmed True Programmed")
	c.says(t, "HTTPRoute", "team-a/chat", "Accepted True Accepted")
	c.says(t, "HTTPRoute", "team-a/chat", "ResolvedRefs True ResolvedRefs")
	shown := harness.Must(t, "", "config", "get", "--data", g.Dir, "model", "team-a--chat")
	require.Contains(t, shown, "organization: acme")
}
