package gatewayapi_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/kubernetes/gatewayapi"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/configstore"
)

const (
	class   = "{kind: GatewayClass, metadata: {name: modelgate}, spec: {controllerName: modelgate.dev/gateway-controller}}"
	https   = "name: https, port: 443, protocol: HTTPS, tls: {mode: Terminate, certificateRefs: [{kind: Secret, name: edge}]}"
	every   = ", allowedRoutes: {namespaces: {from: All}}"
	parents = "parentRefs: [{namespace: platform, name: edge}], "
)

// gateway returns a Gateway with listeners.
func gateway(at, listeners string) string {
	namespace, name, _ := strings.Cut(at, "/")
	return fmt.Sprintf("{kind: Gateway, metadata: {namespace: %s, name: %s, uid: u}, spec: {gatewayClassName: modelgate, listeners: [%s]}}",
		namespace, name, listeners)
}

// route returns an HTTPRoute, whose age is that of its place in a list.
func route(at, spec string) string {
	namespace, name, _ := strings.Cut(at, "/")
	return fmt.Sprintf("{kind: HTTPRoute, metadata: {namespace: %s, name: %s, generation: 3}, spec: {%s}}", namespace, name,
		spec)
}

// world returns one of the platform and two tenants, with objects.
func world(t *testing.T, objects ...string) *gatewayapi.World {
	t.Helper()
	pair, err := certs.Ensure(t.TempDir(), []string{"localhost"}, time.Now())
	require.NoError(t, err)
	secret := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{
		"tls.crt": base64.StdEncoding.EncodeToString(pair.Certificate),
		"tls.key": base64.StdEncoding.EncodeToString(pair.Key)}}}
	target := func(p, m string, weight, priority uint32) *configv1.Target {
		return &configv1.Target{Provider: p, Model: m, Weight: weight, Priority: priority}
	}
	stored := map[string]configv1.Object{
		"Provider mistral": &configv1.Provider{Name: "mistral"},
		"Model gpt": &configv1.Model{Name: "gpt",
			Targets: []*configv1.Target{target("o", "gpt", 0, 0), target("a", "gpt", 0, 5)}},
		"Model claude": &configv1.Model{Name: "claude",
			Targets: []*configv1.Target{target("x", "c", 1, 2), target("y", "c", 2, 2)}},
		"Model slow": &configv1.Model{Name: "slow", Retry: &configv1.Retry{MaxAttempts: 9}},
		"Model team-a--own": &configv1.Model{Name: "team-a--own", Targets: []*configv1.Target{target("o", "own", 0, 0)},
			Organization: "acme"},
	}
	w := &gatewayapi.World{Controller: gatewayapi.Controller, Platform: "platform", Bundle: "v1.6.3",
		Labels: func(namespace string) map[string]string { return map[string]string{"team": namespace} },
		Tenancy: func(namespace string) (gatewayapi.Tenancy, error) {
			switch namespace {
			case "platform":
				return gatewayapi.Tenancy{Platform: true}, nil
			case "stray":
				return gatewayapi.Tenancy{}, errors.New("the namespace belongs to nobody")
			}
			return gatewayapi.Tenancy{Organization: "acme", Project: "search", Prefix: namespace + "--"}, nil
		},
		Secret: func(namespace, name string) (*unstructured.Unstructured, error) {
			switch name {
			case "edge":
				return secret, nil
			case "forbidden":
				return nil, errors.New("secrets are forbidden")
			case "broken":
				return &unstructured.Unstructured{Object: map[string]any{
					"data": map[string]any{"tls.crt": "eA==", "tls.key": "eA=="}}}, nil
			}
			return nil, nil
		},
		May: func(from, to gatewayapi.Ref) error {
			if from == (gatewayapi.Ref{Kind: "HTTPRoute", Namespace: "team-a", Name: "granted"}) {
				return nil
			}
			return errors.New("a ReferenceGrant has to let it")
		},
		Named: func(_, namespace, name string) string {
			if namespace == "platform" {
				return name
			}
			return namespace + "--" + name
		},
		Stored: func(kind, name string) configv1.Object { return stored[kind+" "+name] },
	}
	for i, text := range objects {
		o := &unstructured.Unstructured{}
		plain, err := yaml.YAMLToJSON([]byte(text))
		require.NoError(t, err, text)
		require.NoError(t, o.UnmarshalJSON(plain), text)
		metadata := o.Object["metadata"].(map[string]any)
		metadata["creationTimestamp"] = time.Unix(int64(1000+i), 0).UTC().Format(time.RFC3339)
		switch o.GetKind() {
		case "GatewayClass":
			w.Classes = append(w.Classes, o)
		case "Gateway":
			w.Gateways = append(w.Gateways, o)
		default:
			w.Routes = append(w.Routes, o)
		}
	}
	return w
}

// declared returns what a plan stores, one object a line, without certificates.
func declared(t *testing.T, p *gatewayapi.Plan) (all []string) {
	t.Helper()
	for _, d := range p.Declared() {
		if d.Kind.Name == "Certificate" {
			continue
		}
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(d.Object)
		require.NoError(t, err)
		plain := strings.NewReplacer(", ", ",", `": `, `":`).Replace(string(text))
		all = append(all, fmt.Sprint(d.Kind.Name, " ", plain, " by ", d.Owner.By))
	}
	return all
}

// good says that what is declared is in force.
func good(configstore.Ref) gatewayapi.Verdict { return gatewayapi.Verdict{} }

// said returns the conditions that an object is to have as TYPE STATUS REASON: MESSAGE, by where they are.
func said(p *gatewayapi.Plan, kind, name string) (all []string) {
	for _, s := range p.Statuses(good, time.Now()) {
		if s.Kind != kind || s.Object.GetName() != name {
			continue
		}
		add := func(at string, list any) {
			conditions, _ := list.([]any)
			for _, c := range conditions {
				m := c.(map[string]any)
				all = append(all, fmt.Sprintf("%s%s %s %s: %s", at, m["type"], m["status"], m["reason"], m["message"]))
			}
		}
		add("", s.Body["conditions"])
		for _, part := range []string{"listeners", "parents"} {
			list, _ := s.Body[part].([]any)
			for _, e := range list {
				m := e.(map[string]any)
				name, _ := m["name"].(string)
				add(strings.TrimSpace(name+" "), m["conditions"])
			}
		}
	}
	return all
}

func has(t *testing.T, all []string, wanted string) {
	t.Helper()
	for _, one := range all {
		if strings.Contains(one, wanted) {
			return
		}
	}
	require.Fail(t, "there is no "+wanted, strings.Join(all, "\n"))
}

// TestWhatMapsBecomesConfiguration.
func TestWhatMapsBecomesConfiguration(t *testing.T) {
	const provider = "backendRefs: [{group: modelgate.dev, kind: Provider, name: mistral}]"
	model := func(header, value string, backends ...string) string {
		return fmt.Sprintf("rules: [{matches: [{path: {type: PathPrefix, value: /}, headers: [{name: %s, value: %q}]}], backendRefs: [%s]}]",
			header, value, strings.Join(backends, ", "))
	}
	const gpt, claude = "{group: modelgate.dev, kind: Model, name: gpt, weight: 90}",
		"{group: modelgate.dev, kind: Model, name: claude, weight: 10}"
	for name, c := range map[string]struct {
		at, spec string
		want     []string
	}{
		"a path": {"platform/ocr", "rules: [{matches: [{path: {type: PathPrefix, value: /v1/ocr}}, {path: {value: /v1/scan}}], " +
			provider + "}]", []string{
			`Route {"name":"platform--ocr--0","path_prefix":"/v1/ocr","provider":"mistral","gateways":["edge--https"]} by gateway-api:HTTPRoute/platform/ocr`,
			`Route {"name":"platform--ocr--1","path_prefix":"/v1/scan","provider":"mistral","gateways":["edge--https"]} by gateway-api:HTTPRoute/platform/ocr`}},
		"another path behind": {"platform/m", "rules: [{matches: [{path: {value: /mistral/}}], filters: [{type: URLRewrite, urlRewrite: " +
			"{path: {type: ReplacePrefixMatch, replacePrefixMatch: /v2}}}], " + provider + "}]", []string{
			`Route {"name":"platform--m--0","path_prefix":"/mistral/","provider":"mistral","rewrite_prefix":"/v2","gateways":["edge--https"]} by gateway-api:HTTPRoute/platform/m`}},
		"a tenant's path": {"team-a/granted", "rules: [{matches: [{path: {value: /team-a/ocr}}], backendRefs: " +
			"[{group: modelgate.dev, kind: Provider, namespace: platform, name: mistral}]}]", []string{
			`Route {"name":"team-a--granted--0","path_prefix":"/team-a/ocr","provider":"mistral","gateways":["edge--https"]} by gateway-api:HTTPRoute/team-a/granted`}},
		"another name of a model": {"platform/alias", model("X-Gateway-Model-Name", "OpenAI/GPT", gpt), []string{
			`Model {"name":"OpenAI/GPT","targets":[{"provider":"o","model":"gpt"},{"provider":"a","model":"gpt","priority":5}]} by gateway-api:HTTPRoute/platform/alias`}},
		"a share for each model": {"platform/canary", model("x-ai-eg-model", "chat", gpt, claude), []string{
			`Model {"name":"chat","targets":[{"provider":"o","model":"gpt","weight":27},{"provider":"a","model":"gpt","weight":27,"priority":1},` +
				`{"provider":"x","model":"c","weight":1},{"provider":"y","model":"c","weight":2}]} by gateway-api:HTTPRoute/platform/canary`}},
		"no share": {"platform/drained", model("x-ai-eg-model", "chat", "{group: modelgate.dev, kind: Model, name: claude, weight: 0}", gpt), []string{
			`Model {"name":"chat","targets":[{"provider":"o","model":"gpt"},{"provider":"a","model":"gpt","priority":5}]} by gateway-api:HTTPRoute/platform/drained`}},
		"a tenant's model": {"team-a/chat", model("x-gateway-model-name", "chat", "{group: modelgate.dev, kind: Model, name: own}"), []string{
			`Model {"name":"team-a--chat","targets":[{"provider":"o","model":"own"}],"organization":"acme","project":"search"} by gateway-api:HTTPRoute/team-a/chat`}},
	} {
		t.Run(name, func(t *testing.T) {
			edge := gateway("platform/edge", "{"+https+every+"}")
			p := gatewayapi.Translate(world(t, class, edge, route(c.at, parents+c.spec)))
			_, of, _ := strings.Cut(c.at, "/")
			has(t, said(p, "HTTPRoute", of), "Accepted True Accepted")
			has(t, said(p, "HTTPRoute", of), "ResolvedRefs True ResolvedRefs")
			require.Equal(t, append([]string{
				`Gateway {"name":"edge--https","port":443,"certificate":"edge--https"} by gateway-api:Gateway/platform/edge`},
				c.want...), declared(t, p))
		})
	}
}

// TestWhatDoesNotMapIsAConditionThatNamesTheField, and ends what was in force only where a right is missing.
func TestWhatDoesNotMapIsAConditionThatNamesTheField(t *testing.T) {
	rule := func(more string) string {
		return "rules: [{backendRefs: [{group: modelgate.dev, kind: Provider, name: mistral}], " + more + "}]"
	}
	const path = "matches: [{path: {type: PathPrefix, value: /x}"
	model := func(match, more string) string {
		return "rules: [{matches: [{" + match + "}], backendRefs: [{group: modelgate.dev, kind: Model, name: gpt}" + more + "]}]"
	}
	const chat = "headers: [{name: x-gateway-model-name, value: chat}]"
	for name, c := range map[string]struct {
		at, spec, want string
		ends           bool
	}{
		"exact path": {"platform/r", rule("matches: [{path: {type: Exact, value: /x}}]"), "UnsupportedValue: spec.rules[0].matches[0].path.type: paths", false},
		"every path": {"platform/r", rule("matches: [{path: {type: PathPrefix, value: /}}]"), "UnsupportedValue: spec.rules[0].matches[0].path.value", false},
		"no match":   {"platform/r", rule("name: all"), "UnsupportedValue: spec.rules[0].matches[0].path.value", false},
		"method":     {"platform/r", rule(path + ", method: GET}]"), "UnsupportedValue: spec.rules[0].matches[0].method", false},
		"query":      {"platform/r", rule(path + ", queryParams: [{name: a, value: b}]}]"), "spec.rules[0].matches[0].queryParams", false},
		"header": {"platform/r", rule(path + ", headers: [{name: a, value: b}]}]"),
			"spec.rules[0].matches[0].headers", false},
		"timeouts":        {"platform/r", rule(path + "}], timeouts: {request: 1s}"), "spec.rules[0].timeouts", false},
		"a field of 2030": {"platform/r", rule(path + "}], teleport: true"), "spec.rules[0].teleport has no effect", false},
		"mirror":          {"platform/r", rule(path + "}], filters: [{type: RequestMirror, requestMirror: {}}]"), "spec.rules[0].filters[0].type: RequestMirror", false},
		"full path":       {"platform/r", rule(path + "}], filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /}}}]"), "filters[0].urlRewrite.path.type", false},
		"host":            {"platform/r", rule(path + "}], filters: [{type: URLRewrite, urlRewrite: {hostname: a}}]"), "filters[0].urlRewrite.hostname", false},
		"two providers": {"platform/r", "rules: [{" + path + "}], backendRefs: [{group: modelgate.dev, kind: Provider, name: mistral}, " +
			"{group: modelgate.dev, kind: Provider, name: mistral}]}]", "UnsupportedValue: spec.rules[0].backendRefs: a path leads to one", false},
		"a filter of a backend": {"platform/r", "rules: [{" + path + "}], backendRefs: [{group: modelgate.dev, kind: Provider, name: mistral, " +
			"filters: [{type: URLRewrite}]}]}]", "spec.rules[0].backendRefs[0].filters", false},
		"both kinds": {"platform/r", model(chat, ", {group: modelgate.dev, kind: Provider, name: mistral}"), "are of one kind", false},
		"a Service":  {"platform/r", "rules: [{" + path + "}], backendRefs: [{name: web, port: 80}]}]", "ResolvedRefs False InvalidKind: spec.rules[0].backendRefs[0].kind", false},
		"no backend": {"platform/r", "rules: [{" + path + "}]}]", "UnsupportedValue: spec.rules[0].backendRefs", false},
		"not there":  {"platform/r", strings.ReplaceAll(rule(path+"}]"), "mistral", "nobody"), "ResolvedRefs False BackendNotFound: spec.rules[0].backendRefs[0].name", false},
		"of another namespace": {"team-a/r", "rules: [{matches: [{path: {value: /team-a}}], backendRefs: [{group: modelgate.dev, kind: Provider, " +
			"namespace: platform, name: mistral}]}]", "ResolvedRefs False RefNotPermitted: spec.rules[0].backendRefs[0].name", true},
		"a path of others": {"team-a/granted", "rules: [{matches: [{path: {value: /team-ab}}], backendRefs: [{group: modelgate.dev, kind: Provider, " +
			"namespace: platform, name: mistral}]}]", "UnsupportedValue: spec.rules[0].matches[0].path.value: paths of the namespace begin with /team-a/", true},
		"a tenant's mistake": {"team-a/r", "rules: [{" + path + "}], backendRefs: [{name: web, port: 80}]}]",
			"ResolvedRefs False InvalidKind", true},
		"a namespace of nobody": {"stray/r", rule(path + "}]"), "Accepted False NotAllowedByListeners: the namespace belongs to nobody", true},
		"no model named":        {"platform/r", model("path: {value: /}", ""), "spec.rules[0].matches[0].headers: the body", false},
		"another header":        {"platform/r", model("headers: [{name: x-team, value: chat}]", ""), "spec.rules[0].matches[0].headers[0].name", false},
		"a pattern":             {"platform/r", model("headers: [{name: x-ai-eg-model, type: RegularExpression, value: .*}]", ""), "headers[0].type", false},
		"a path of a model":     {"platform/r", model(chat+", path: {value: /v1/chat}", ""), "spec.rules[0].matches[0].path.value: a Model", false},
		"other retries":         {"platform/r", model(chat, ", {group: modelgate.dev, kind: Model, name: slow}"), "gpt and slow have another retry", false},
		"twice":                 {"platform/r", rule(path + "}, {path: {value: /x/}}]"), "Accepted False Conflict: spec.rules: the path /x", false},
		"no such listener": {"platform/r", "parentRefs: [{namespace: platform, name: edge, sectionName: other}], " + rule(path+"}]"),
			"Accepted False NoMatchingParent: spec.parentRefs[0].name", true},
	} {
		t.Run(name, func(t *testing.T) {
			namespace, of, _ := strings.Cut(c.at, "/")
			if !strings.HasPrefix(c.spec, "parentRefs") {
				c.spec = parents + c.spec
			}
			p := gatewayapi.Translate(world(t, class, gateway("platform/edge", "{"+https+every+"}"), route(c.at, c.spec)))
			has(t, said(p, "HTTPRoute", of), c.want)
			require.Len(t, declared(t, p), 1, "the Gateway's")
			owner := configstore.Owner{By: "gateway-api:HTTPRoute/" + namespace + "/" + of}
			require.Equal(t, !c.ends, p.Keeps(configstore.Ref{Kind: "Route", Name: "x"}, owner))
		})
	}
}
