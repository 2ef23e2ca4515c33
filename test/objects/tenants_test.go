package objects_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/harness"
)

// grantDefinition is as much of the Gateway API's ReferenceGrant as is read.
const grantDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: referencegrants.gateway.networking.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/gateway-api/pull/2997"}
spec:
  group: gateway.networking.k8s.io
  names: {kind: ReferenceGrant, listKind: ReferenceGrantList, plural: referencegrants, singular: referencegrant}
  scope: Namespaced
  versions:
  - {name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

const grant = `
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {namespace: platform, name: providers}
spec:
  from: [{group: modelgate.dev, kind: Model, namespace: team-a}]
  to: [{group: modelgate.dev, kind: Provider, name: shared}]
`

// TestNamespacesAreTenants: each has what is its own, and reaches nothing of others.
func TestNamespacesAreTenants(t *testing.T) {
	c, g := start(t)
	c.apply(t, grantDefinition)
	c.apply(t, object("Organization", "platform/acme", "{}"), object("Organization", "platform/other", "{}"),
		object("Project", "platform/search", "{name: acme/search}"), object("Project", "platform/ads", "{name: acme/ads}"),
		object("Provider", "platform/shared", local), object("Provider", "platform/kept", local))
	c.namespace(t, "team-a", "modelgate.dev/organization: acme, modelgate.dev/project: search")
	c.namespace(t, "team-b", "modelgate.dev/organization: acme, modelgate.dev/project: ads")
	c.namespace(t, "stray", "")

	c.apply(t, object("Key", "team-a/web", "{display_name: web}"), object("Key", "team-b/web", "{display_name: web}"))
	c.has(t, "Key", "team-a/web", programmed)
	shown := harness.Must(t, "", "config", "get", "--data", g.Dir, "key", c.status(t, "Key", "team-a/web", "name"))
	require.Contains(t, shown, "organization: acme")
	require.Contains(t, shown, "project: search")
	for at, o := range map[string]struct{ kind, spec, is string }{
		"team-a/evil":   {"Key", "{display_name: x, organization: other}", "Accepted False NotPermitted"},
		"team-a/across": {"Key", "{display_name: x, organization: acme, project: ads}", "Accepted False NotPermitted"},
		"team-a/own":    {"Provider", local, "Accepted False NotPermitted"},
		"team-a/budget": {"Project", "{name: acme/search}", "Accepted False NotPermitted"},
		"team-a/root":   {"AdminToken", `{display_name: x, scopes: ["*"]}`, "Accepted False NotPermitted"},
		"team-a/env": {"Webhook", `{url: "https://x.example.com", secret: {env: HOME}}`,
			"Accepted False NotPermitted"},
		"team-a/theirs": {"Webhook",
			`{url: "https://x.example.com", secret: {secret_key_ref: {namespace: team-b, name: web-key, key: api-key}}}`,
			"ResolvedRefs False RefNotPermitted"},
		"team-a/policy": {"Policy", `{key: team-b/web, rules: [{name: a, deny: "true"}]}`,
			"ResolvedRefs False RefNotPermitted"},
		"team-a/missing": {"Policy", `{key: nobody, rules: [{name: a, deny: "true"}]}`, "ResolvedRefs False NotFound"},
		"stray/lost":     {"Policy", `{rules: [{name: a, deny: "true"}]}`, "Accepted False NamespaceNotBound"},
	} {
		c.apply(t, object(o.kind, at, o.spec))
		c.has(t, o.kind, at, o.is)
	}

	const chat = "{targets: [{provider: platform/shared, model: m}]}"
	c.apply(t, object("Model", "team-a/chat", chat))
	c.has(t, "Model", "team-a/chat", "ResolvedRefs False RefNotPermitted")
	c.apply(t, grant)
	c.has(t, "Model", "team-a/chat", programmed)
	require.Equal(t, "team-a--chat", c.status(t, "Model", "team-a/chat", "name"))
	c.apply(t, object("Model", "team-b/chat", chat),
		object("Model", "team-a/other", "{targets: [{provider: platform/kept, model: m}]}"))
	c.has(t, "Model", "team-b/chat", "ResolvedRefs False RefNotPermitted")
	c.has(t, "Model", "team-a/other", "ResolvedRefs False RefNotPermitted")
	c.apply(t, object("Policy", "team-a/policy", `{key: web, rules: [{name: a, deny: "true"}]}`))
	c.has(t, "Policy", "team-a/policy", programmed)
	require.Contains(t, harness.Must(t, "", "config", "get", "--data", g.Dir, "policy", "team-a--policy"),
		"project: search")

	// Who loses a right has nothing in force by it, also not in a version that stays because a later one is broken.
	c.apply(t, object("Model", "team-a/sly", chat), object("Model", "team-a/slyer", chat))
	c.has(t, "Model", "team-a/sly", programmed)
	c.has(t, "Model", "team-a/slyer", programmed)
	c.apply(t, object("Model", "team-a/sly", "{targets: [{provider: nowhere/at-all, model: m}]}"),
		object("Model", "team-a/slyer", "{targets: [{provider: absent, model: m}]}"))
	c.has(t, "Model", "team-a/slyer", "Programmed False LastGood")
	c.delete(t, "ReferenceGrant", "platform", "providers")
	c.has(t, "Model", "team-a/chat", "Programmed False NotAccepted")
	for _, name := range []string{"chat", "sly", "slyer"} {
		gone(t, g, "model", "team-a--"+name)
	}
	c.namespace(t, "team-a", "modelgate.dev/organization: acme, modelgate.dev/project: ads")
	harness.Eventually(t, "the key moves with its namespace", func() error {
		shown := harness.Must(t, "", "config", "get", "--data", g.Dir, "key", c.status(t, "Key", "team-a/web", "name"))
		return contains(shown, "project: ads")
	})
	c.namespace(t, "team-b", "")
	c.has(t, "Key", "team-b/web", "Accepted False NamespaceNotBound")
	gone(t, g, "key", c.status(t, "Key", "team-b/web", "name"))
	c.delete(t, "Namespace", "", "team-a") // no controller of namespaces runs here, so it stays until it is empty
}
