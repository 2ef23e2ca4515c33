package gatewayapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/kubernetes/gatewayapi"
	"github.com/modelgate/modelgate/internal/configstore"
)

// TestListenersThatCannotBeSayWhy.
func TestListenersThatCannotBeSayWhy(t *testing.T) {
	with := func(old, other string) string { return "{" + strings.Replace(https, old, other, 1) + "}" }
	for name, c := range map[string]struct{ listener, want string }{
		"plain HTTP":           {"{name: https, port: 80, protocol: HTTP}", "httpsAccepted False UnsupportedProtocol: spec.listeners[0].protocol"},
		"TCP":                  {"{name: https, port: 80, protocol: TCP}", "httpsAccepted False UnsupportedProtocol"},
		"TLS passes":           {"{name: https, port: 80, protocol: TLS, tls: {mode: Passthrough}}", "httpsAccepted False UnsupportedProtocol"},
		"HTTPS passes":         {with("Terminate", "Passthrough"), "httpsAccepted False UnsupportedValue: spec.listeners[0].tls.mode"},
		"options":              {with("mode:", "options: {a: b}, mode:"), "httpsAccepted False UnsupportedValue: spec.listeners[0].tls.options"},
		"two certificates":     {with("[{", "[{name: a}, {"), "httpsAccepted False UnsupportedValue: spec.listeners[0].tls.certificateRefs"},
		"no Secret":            {with("name: edge", "name: lost"), "httpsResolvedRefs False InvalidCertificateRef: spec.listeners[0].tls.certificateRefs[0].name: Secret platform/lost"},
		"a Secret unread":      {with("name: edge", "name: forbidden"), "httpsResolvedRefs False InvalidCertificateRef"},
		"a broken Secret":      {with("name: edge", "name: broken"), "httpsResolvedRefs False InvalidCertificateRef"},
		"no right to a Secret": {with("name: edge", "namespace: team-a, name: edge"), "httpsResolvedRefs False RefNotPermitted"},
		"a ConfigMap":          {with("kind: Secret", "kind: ConfigMap"), "httpsResolvedRefs False InvalidCertificateRef"},
	} {
		t.Run(name, func(t *testing.T) {
			p := gatewayapi.Translate(world(t, class, gateway("platform/edge", c.listener)))
			has(t, said(p, "Gateway", "edge"), c.want)
			has(t, said(p, "Gateway", "edge"), "httpsProgrammed False Invalid")
			require.Empty(t, p.Declared())
			require.Equal(t, !strings.Contains(c.want, "RefNotPermitted"),
				p.Keeps(configstore.Ref{Kind: "Gateway", Name: "edge--https"}, configstore.Owner{}))
		})
	}
}

// TestKindsOfRoutesThatAreNotKnown are told, and the listener listens.
func TestKindsOfRoutesThatAreNotKnown(t *testing.T) {
	p := gatewayapi.Translate(world(t, class, gateway("platform/edge",
		"{"+https+", allowedRoutes: {kinds: [{kind: GRPCRoute}, {kind: HTTPRoute}]}}")))
	has(t, said(p, "Gateway", "edge"), "httpsResolvedRefs False InvalidRouteKinds: spec.listeners[0].allowedRoutes.kinds[0].kind")
	has(t, said(p, "Gateway", "edge"), "httpsProgrammed True Programmed")
}

// TestOnlyThePlatformOpensListeners.
func TestOnlyThePlatformOpensListeners(t *testing.T) {
	p := gatewayapi.Translate(world(t, class, gateway("team-a/mine", "{"+https+every+"}"),
		route("team-a/r", "parentRefs: [{name: mine}], rules: [{matches: [{path: {value: /team-a}}]}]")))
	has(t, said(p, "Gateway", "mine"), "Accepted False Invalid: only the platform opens listeners")
	has(t, said(p, "HTTPRoute", "r"), "Accepted False NoMatchingParent")
	require.Empty(t, p.Declared())
	require.False(t, p.Keeps(configstore.Ref{}, configstore.Owner{By: "gateway-api:Gateway/team-a/mine"}))
}

// TestListenersSayWhoseRoutesTheyAnswerFor: those that allow a path, and for a model all or none.
func TestListenersSayWhoseRoutesTheyAnswerFor(t *testing.T) {
	const path = "rules: [{matches: [{path: {value: /team-a}}], backendRefs: [{group: modelgate.dev, kind: Provider, " +
		"namespace: platform, name: mistral}]}]"
	const model = "rules: [{matches: [{headers: [{name: x-gateway-model-name, value: chat}]}], " +
		"backendRefs: [{group: modelgate.dev, kind: Model, name: own}]}]"
	second := strings.NewReplacer("https", "second", "443", "8443").Replace(https)
	const team = ", allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: team-a}}}}"
	const part = "parentRefs: [{namespace: platform, name: edge, sectionName: https}, {namespace: platform, name: edge, port: 443}], "
	for name, c := range map[string]struct{ listeners, spec, want, answers string }{
		"same": {"{" + https + "}",
			parents + path, "Accepted False NotAllowedByListeners: spec.parentRefs[0].name", ""},
		"all": {"{" + https + every + "}",
			parents + path, "Accepted True Accepted", `"edge--https"`},
		"selected": {"{" + https + team + "}",
			parents + path, "Accepted True Accepted", `"edge--https"`},
		"others": {"{" + https + strings.ReplaceAll(team, "team-a", "team-b") + "}",
			parents + path, "Accepted False NotAllowedByListeners", ""},
		"another kind": {"{" + https + ", allowedRoutes: {kinds: [{kind: GRPCRoute}], namespaces: {from: All}}}",
			parents + path, "Accepted False NotAllowedByListeners", ""},
		"one of two": {"{" + https + every + "}, {" + second + "}",
			parents + path, "Accepted True Accepted", `"edge--https"`},
		"both": {"{" + https + every + "}, {" + second + team + "}",
			parents + path, "Accepted True Accepted", `"edge--https","edge--second"`},
		"a part": {"{" + https + every + "}, {" + second + every + "}",
			part + path, "Accepted True Accepted", `"edge--https"`},
		"a model for one of two": {"{" + https + every + "}, {" + second + "}", parents + model,
			"Accepted False NotAllowedByListeners: spec.parentRefs: all listeners of the gateway answer for a model, and it is not allowed by listener second", ""},
		"a model for a part": {"{" + https + every + "}, {" + second + every + "}", part + model,
			"Accepted False UnsupportedValue: spec.parentRefs: all listeners of the gateway answer for a model, and it is not attached to listener second", ""},
		"a model for both": {"{" + https + every + "}, {" + second + every + "}",
			parents + model, "Accepted True Accepted", ""},
		"one that is wrong": {"{" + https + every + "}, {name: plain, port: 80, protocol: HTTP}",
			parents + model, "Accepted True Accepted", ""},
		"none that is good": {"{name: plain, port: 80, protocol: HTTP" + every + "}",
			parents + path, "Accepted False Pending", ""},
		"none that is there": {"{" + strings.Replace(https, "name: edge", "name: lost", 1) + every + "}", parents + path,
			"Accepted True Accepted", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := gatewayapi.Translate(world(t, class, gateway("platform/edge", c.listeners), route("team-a/granted", c.spec)))
			has(t, said(p, "HTTPRoute", "granted"), c.want)
			all := strings.Join(declared(t, p), "\n")
			require.Equal(t, c.answers != "", strings.Contains(all, "Route {"))
			require.Contains(t, all, c.answers)
			if c.answers != "" {
				require.Contains(t, all, `"gateways":[`+c.answers+`]`)
			}
			counted := int64(0)
			for _, s := range p.Statuses(good, time.Now()) {
				if s.Kind == "Gateway" {
					counted = s.Body["listeners"].([]any)[0].(map[string]any)["attachedRoutes"].(int64)
				}
			}
			require.Equal(t, strings.Contains(c.want, "True"), counted == 1)
		})
	}
}

// TestHostnames: a listener answers for its own, and routes are for all of them or for none.
func TestHostnames(t *testing.T) {
	for name, c := range map[string]struct{ listener, route, want string }{
		"none of a route":    {"a.example.com", "", "Accepted True"},
		"the same":           {"a.example.com", "hostnames: [a.example.com], ", "Accepted True"},
		"one of several":     {"a.example.com", "hostnames: [x.org, a.example.com], ", "Accepted True"},
		"a pattern":          {"a.example.com", `hostnames: ["*.example.com"], `, "Accepted True"},
		"two patterns":       {"*.a.example.com", `hostnames: ["*.example.com"], `, "Accepted True"},
		"another":            {"a.example.com", "hostnames: [b.example.com], ", "Accepted False NoMatchingListenerHostname: spec.hostnames"},
		"its parent":         {"a.example.com", "hostnames: [example.com], ", "Accepted False NoMatchingListenerHostname"},
		"an end of a name":   {"a.example.com", `hostnames: ["*.ple.com"], `, "Accepted False NoMatchingListenerHostname"},
		"a part of them":     {"*.example.com", "hostnames: [a.example.com], ", "Accepted False UnsupportedValue: spec.hostnames"},
		"a part of all":      {"", "hostnames: [a.example.com], ", "Accepted False UnsupportedValue: spec.hostnames"},
		"the pattern's stem": {"*.example.com", "hostnames: [example.com], ", "Accepted False NoMatchingListenerHostname"},
	} {
		t.Run(name, func(t *testing.T) {
			host := ""
			if c.listener != "" {
				host = fmt.Sprintf("hostname: %q, ", c.listener)
			}
			p := gatewayapi.Translate(world(t, class, gateway("platform/edge", "{"+host+https+"}"), route("platform/r",
				c.route+parents+"rules: [{matches: [{path: {value: /x}}], backendRefs: [{group: modelgate.dev, kind: Provider, name: mistral}]}]")))
			has(t, said(p, "HTTPRoute", "r"), c.want)
			require.Equal(t, c.listener != "", strings.Contains(declared(t, p)[0], fmt.Sprintf(`"hostnames":[%q]`, c.listener)))
		})
	}
}

// TestTheOlderOneHasIt: of Gateways with one port, of routes with one path.
func TestTheOlderOneHasIt(t *testing.T) {
	const rule = "rules: [{matches: [{path: {value: /x}}], backendRefs: [{group: modelgate.dev, kind: Provider, name: mistral}]}]"
	const both = "parentRefs: [{name: edge}], "
	p := gatewayapi.Translate(world(t, class, gateway("platform/edge", "{"+https+"}"),
		gateway("platform/another", "{"+https+"}"), route("platform/z", both+rule), route("platform/a", both+rule)))
	has(t, said(p, "Gateway", "another"), "httpsAccepted False PortUnavailable: port 443 is that of listener https of Gateway edge")
	has(t, said(p, "Gateway", "another"), "Programmed False Invalid")
	has(t, said(p, "HTTPRoute", "z"), "Accepted True")
	has(t, said(p, "HTTPRoute", "a"), "Accepted False Conflict: spec.rules: the path /x is that of HTTPRoute platform/z")
	require.Len(t, declared(t, p), 2)
}

// TestTheServiceSaysPortsAndAddresses.
func TestTheServiceSaysPortsAndAddresses(t *testing.T) {
	other := strings.NewReplacer("https", "other", "443", "444").Replace(https)
	w := world(t, class, gateway("platform/edge", "{"+https+"}, {"+other+"}"))
	w.ServiceName = "data"
	p := gatewayapi.Translate(w)
	has(t, said(p, "Gateway", "edge"), "httpsAccepted False PortUnavailable: the Service data is not there")
	w.Service = &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(`
spec: {type: LoadBalancer, clusterIP: 10.0.0.1, ipFamilies: [IPv6], ports: [{port: 443, targetPort: 9443}, {port: 445, targetPort: https}]}
status: {loadBalancer: {}}
`), &w.Service.Object))
	p = gatewayapi.Translate(w)
	has(t, said(p, "Gateway", "edge"), "Programmed False AddressNotAssigned")
	has(t, said(p, "Gateway", "edge"), "Accepted True ListenersNotValid")
	has(t, said(p, "Gateway", "edge"), "otherAccepted False PortUnavailable: the Service data has no port 444")
	require.Equal(t, []string{
		`Gateway {"name":"edge--https","address":"::","port":9443,"certificate":"edge--https"} by gateway-api:Gateway/platform/edge`},
		declared(t, p))
	w.Service.Object["status"] = map[string]any{"loadBalancer": map[string]any{"ingress": []any{
		map[string]any{"ip": "192.0.2.1"}, map[string]any{"hostname": "lb.example.com"}}}}
	p = gatewayapi.Translate(w)
	has(t, said(p, "Gateway", "edge"), "Programmed True Programmed")
	for _, s := range p.Statuses(good, time.Now()) {
		if s.Kind == "Gateway" {
			require.Equal(t, []any{map[string]any{"type": "IPAddress", "value": "192.0.2.1"},
				map[string]any{"type": "Hostname", "value": "lb.example.com"}}, s.Body["addresses"])
		}
	}
}

// TestClasses: those of others are not touched.
func TestClasses(t *testing.T) {
	w := world(t, class, "{kind: GatewayClass, metadata: {name: other}, spec: {controllerName: example.com/x}}",
		"{kind: GatewayClass, metadata: {name: tuned}, spec: {controllerName: modelgate.dev/gateway-controller, parametersRef: {name: x}}}",
		strings.Replace(gateway("platform/edge", "{"+https+"}"), "modelgate,", "other,", 1))
	w.Bundle = "v1.7.0"
	p := gatewayapi.Translate(w)
	has(t, said(p, "GatewayClass", "modelgate"), "Accepted True Accepted")
	has(t, said(p, "GatewayClass", "modelgate"), "SupportedVersion False UnsupportedVersion")
	has(t, said(p, "GatewayClass", "tuned"), "Accepted False InvalidParameters: spec.parametersRef")
	require.Empty(t, said(p, "GatewayClass", "other"))
	require.Empty(t, said(p, "Gateway", "edge"))
	w.Bundle = "v1.6.3"
	has(t, said(gatewayapi.Translate(w), "GatewayClass", "modelgate"), "SupportedVersion True")
}

// TestWhatBecameOfItIsSaid, and what others say of a route stays. What is said already is not said again.
func TestWhatBecameOfItIsSaid(t *testing.T) {
	const spec = parents + "rules: [{matches: [{path: {value: /v1/chat}}], backendRefs: [{group: modelgate.dev, kind: Provider, name: mistral}]}]"
	w := world(t, class, gateway("platform/edge", "{"+https+every+"}"), route("platform/r", spec))
	foreign := map[string]any{"controllerName": "example.com/x", "parentRef": map[string]any{"name": "theirs"}}
	w.Routes[0].Object["status"] = map[string]any{"parents": []any{foreign}}
	verdict := gatewayapi.Verdict{}
	body := func() map[string]any {
		judge := func(configstore.Ref) gatewayapi.Verdict { return verdict }
		for _, s := range gatewayapi.Translate(w).Statuses(judge, time.Now()) {
			if s.Kind == "HTTPRoute" {
				return s.Body
			}
		}
		return nil
	}
	of := func(i int) map[string]any {
		return body()["parents"].([]any)[1].(map[string]any)["conditions"].([]any)[i].(map[string]any)
	}
	require.Equal(t, foreign, body()["parents"].([]any)[0])
	require.Equal(t, "True", of(0)["status"])
	require.Equal(t, int64(3), of(0)["observedGeneration"])
	verdict.Err = configv1.Errors{{Object: "Route x", Field: "path_prefix", Message: "is the gateway's own"}}
	require.Equal(t, "UnsupportedValue", of(0)["reason"])
	verdict.Err = configv1.Errors{{Object: "Route x", Field: "provider", Message: "does not exist", Unresolved: true}}
	require.Equal(t, "BackendNotFound", of(1)["reason"])
	verdict.Err = openai.CodeDeclaredElsewhere.New("it is another's")
	require.Equal(t, "Conflict", of(0)["reason"])
	verdict = gatewayapi.Verdict{Held: "rule"}
	require.Equal(t, "Pending", of(0)["reason"])

	verdict = gatewayapi.Verdict{}
	w.Routes[0].Object["status"] = body()
	require.Nil(t, body(), "it says so already")
	w.Gateways = nil
	require.Equal(t, []any{foreign}, body()["parents"], "a route without a parent of ours has nothing of us")
}

// TestAPolicyForAProviderHasNoEffect, and says so. One for a Service is nobody's business here.
func TestAPolicyForAProviderHasNoEffect(t *testing.T) {
	w := world(t, class)
	for _, kind := range []string{"{group: modelgate.dev, kind: Provider, name: mistral}", "{group: \"\", kind: Service, name: web}"} {
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte("{kind: BackendTLSPolicy, metadata: {namespace: platform, name: p}, spec: {targetRefs: ["+
			kind+"]}}"), &o.Object))
		w.Policies = append(w.Policies, o)
	}
	said := 0
	for _, s := range gatewayapi.Translate(w).Statuses(good, time.Now()) {
		if s.Kind == "BackendTLSPolicy" {
			said++
			c := s.Body["ancestors"].([]any)[0].(map[string]any)["conditions"].([]any)[0].(map[string]any)
			require.Equal(t, "False", c["status"])
			require.Contains(t, c["message"], "spec.tls.server_name")
		}
	}
	require.Equal(t, 1, said)
}
