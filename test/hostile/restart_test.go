package hostile

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// objectsOfKinds is an object of each kind, as an operator sets it. Those of kinds in made are edits of what a start
// makes: what they do not have stays as it is.
const objectsOfKinds = `kind: Organization
name: acme
display_name: Acme
---
kind: Project
name: acme/web
display_name: Web
---
kind: Model
name: m
targets: [{provider: echo, model: echo}]
---
kind: Route
name: r
path_prefix: /r/
provider: echo
---
kind: Catalog
name: default
models: [{models: ["*"], price: {input: "1", output: "2"}}]
---
kind: Webhook
name: w
url: https://hooks.example.com/
events: [batch.completed]
secret: {value: whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0}
---
kind: RateLimit
name: l
domain: requests
descriptors: [{key: user, rate_limit: {unit: MINUTE, requests_per_unit: 9}}]
---
kind: Guardrail
name: g
organization: acme
rules: [{name: card, mode: BLOCK, data: [CARD]}]
---
kind: Checker
name: c
type: MODERATION
url: https://127.0.0.1:1/
timeout: 2s
---
kind: Policy
name: p
organization: acme
rules: [{name: r, deny: "model == 'x'"}]
---
kind: ResponseCache
name: a
organization: acme
ttl: 60s
---
kind: Account
name: a@example.com
role: VIEWER
password: correct horse battery
---
kind: IdentityProvider
name: i
issuer: https://127.0.0.1:1/
client_id: c
client_secret: {value: s}
default_role: VIEWER
---
kind: TokenIssuer
name: t
issuer: https://127.0.0.1:1/
jwks_url: https://127.0.0.1:1/keys
audiences: [a]
bindings: [{key: KEY, claims: {sub: x}}]
---
kind: CertificateIssuer
name: mesh
bindings: [{key: KEY, identity: "spiffe://example.org/x"}]
ca: |
  PEM
---
kind: Retention
name: default
requests: 864000s
---
kind: ApprovalRule
name: a
organization: acme
keys: true
---
kind: AlertRule
name: a
condition: PROVIDER_FAILING
---
kind: AlertReceiver
name: a
webhook: {url: "https://hooks.example.com/"}
credential: {value: "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}
---
kind: AuditSink
name: s
webhook: {url: "https://hooks.example.com/"}
credential: {value: "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}
---
kind: Gateway
name: default
certificate: default
trusted_hops: 1
max_request_bytes: 1000000
plain_http_port: FREE
address_limit: {requests_per_second: 900, burst: 900}
cors: {origins: ["https://example.com"]}
---
kind: JobService
name: default
stored_responses: {retention: 7200s}
---
kind: Provider
name: echo
vendor: echo
credential: {value: x}
headers: {x-a: b}
timeouts: {connect: 3s}
models: [echo, other]
allow_unlisted_models: true
unsupported_parameters: DROP
disabled: true
concurrency: {max_requests: 5}
trace_context: true
full_names_only: true
shared_objects: true
untouched_answers: true
operations: [chat/completions, embeddings]
---
kind: Certificate
name: default
`

// made are the fields of the kinds of which a start makes objects: those that follow each start, and those that an
// object of this vendor or kind cannot have.
var made = map[string]struct{ follow, never []string }{
	// The test asks at an address, and not at a name.
	"Gateway":     {follow: []string{"address", "port"}, never: []string{"hostnames"}},
	"JobService":  {follow: []string{"address", "listen"}, never: []string{"tls"}}, // which Unix sockets have none of
	"Certificate": {follow: []string{"chain", "private_key"}, never: []string{"chain_file"}},
	"Provider": {follow: []string{"endpoint"}, never: []string{"tls", "region", "project", "api_version",
		"native_batches"}},
}

// notApplied are kinds whose objects come in another way: a key by its own command, and what the control plane writes
// while it runs.
var notApplied = []string{"Key", "AdminToken", "Listing", "IdentityGroup"}

// What an operator has set is what it was after a restart, for every kind, also in the objects that a start makes.
func TestAStartChangesNothingThatAnOperatorSet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := harness.Run(t, dir, "--concurrency", "1")
	key, _ := g.CreateKey(t, "", "")
	ca := newAuthority(t)
	text := strings.NewReplacer("KEY", key, "FREE", fmt.Sprint(harness.FreePort(t)), "PEM\n",
		strings.ReplaceAll(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})), "\n", "\n  ")+
			"\n").Replace(objectsOfKinds)
	docs, err := configv1.ParseYAML("objects", []byte(text))
	require.NoError(t, err)
	api := adminapi.NewClient(g.File(t, "admin"), g.File(t, "admin-token"), g.Client)
	stored := func(kind configv1.Kind, name string) configv1.Object {
		item, err := api.Get(t.Context(), kind, name)
		require.NoError(t, err, "%s %s", kind.Name, name)
		return item.Object
	}
	var objects []configv1.Object
	seen := slices.Clone(notApplied)
	for _, d := range docs {
		o, kind := d.Object, configv1.KindOf(d.Object)
		seen = append(seen, kind.Name)
		if how, ok := made[kind.Name]; ok {
			o = edited(t, stored(kind, o.GetName()), o, how.follow, how.never)
		}
		objects = append(objects, o)
	}
	for _, kind := range configv1.Kinds() {
		require.Contains(t, seen, kind.Name, "a new kind: set an object of it here")
	}
	_, err = api.Apply(t.Context(), objects, false)
	require.NoError(t, err)
	all := func() map[string]configv1.Object {
		found := map[string]configv1.Object{}
		for _, kind := range configv1.Kinds() {
			items, err := api.List(t.Context(), kind)
			require.NoError(t, err)
			for _, i := range items {
				o := proto.Clone(i.Object).(configv1.Object)
				for _, f := range made[kind.Name].follow {
					o.ProtoReflect().Clear(field(o, f))
				}
				found[configv1.Label(o)] = o
			}
		}
		return found
	}
	before := all()
	require.GreaterOrEqual(t, len(before), len(objects))
	g.Stop(t)

	g = harness.Run(t, dir, "--concurrency", "1")
	api = adminapi.NewClient(g.File(t, "admin"), g.File(t, "admin-token"), g.Client)
	after := all()
	require.Len(t, after, len(before))
	for label, o := range before {
		require.True(t, proto.Equal(o, after[label]), "%s:\n%v\n%v", label, o, after[label])
	}
	a := g.AsCases().Do(t, http.MethodGet, "/v1/responses/resp_none", "")
	require.Contains(t, string(a.Body), "resp_none", "responses are still stored")
}

func field(o configv1.Object, name string) protoreflect.FieldDescriptor {
	return o.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name))
}

// edited is a stored object with the edits. Every field of it must be edited, follow the start, or be said to be never
// set.
func edited(t *testing.T, stored, edits configv1.Object, follow, never []string) configv1.Object {
	t.Helper()
	o := proto.Clone(stored).(configv1.Object)
	fields := edits.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name := string(f.Name())
		switch {
		case edits.ProtoReflect().Has(f):
			o.ProtoReflect().Set(f, edits.ProtoReflect().Get(f))
		default:
			require.Contains(t, slices.Concat(follow, never), name, "%s: a new field: edit it here", configv1.Label(o))
		}
	}
	return o
}
