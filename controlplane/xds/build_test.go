package xds

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"sigs.k8s.io/yaml"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/golden"
	"github.com/modelgate/modelgate/internal/provider"
)

// testOptions are three vendors that differ in what the builders look at.
func testOptions() Options {
	return Options{
		SystemCA: "/etc/ssl/certs/ca-certificates.crt",
		Providers: map[string]provider.Provider{
			"openai": {Name: "openai", DefaultEndpoint: "https://api.openai.com/v1",
				CredentialHeaders: []string{"Authorization", "OpenAI-Organization", "OpenAI-Project"}},
			"anthropic": {Name: "anthropic", DefaultEndpoint: "https://api.anthropic.com",
				CredentialHeaders: []string{"X-Api-Key", "Anthropic-Version", "Anthropic-Beta"}},
			"echo": {Name: "echo"},
		},
	}
}

// readInput reads a configuration as one YAML document.
func readInput(t *testing.T, path string) Input {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var doc struct {
		Providers, Models, Keys, Gateways, Certificates, Routes, Catalogs, JobServices, Webhooks, Listings []json.RawMessage
		CertificateIssuers                                                                                 []json.RawMessage
		Organizations, Projects, RateLimits                                                                []json.RawMessage
		Settings, Responses                                                                                json.RawMessage
	}
	require.NoError(t, yaml.UnmarshalStrict(text, &doc))
	in := Input{
		Providers:    messages[configv1.ResolvedProvider](t, doc.Providers),
		Models:       messages[configv1.Model](t, doc.Models),
		Keys:         messages[configv1.Key](t, doc.Keys),
		Gateways:     messages[configv1.Gateway](t, doc.Gateways),
		Certificates: messages[configv1.Certificate](t, doc.Certificates),
		Routes:       messages[configv1.Route](t, doc.Routes),
		Catalogs:     messages[configv1.Catalog](t, doc.Catalogs),
		JobServices:  messages[configv1.JobService](t, doc.JobServices),
		Webhooks:     messages[configv1.Webhook](t, doc.Webhooks),
		Listings:     messages[configv1.Listing](t, doc.Listings),

		Organizations: messages[configv1.Organization](t, doc.Organizations),
		Projects:      messages[configv1.Project](t, doc.Projects),
		RateLimits:    messages[configv1.RateLimit](t, doc.RateLimits),

		CertificateIssuers: messages[configv1.CertificateIssuer](t, doc.CertificateIssuers),

		Settings: messages[configv1.Settings](t, []json.RawMessage{doc.Settings})[0],
	}
	if doc.Responses != nil {
		in.Responses = messages[configv1.ResponseStore](t, []json.RawMessage{doc.Responses})[0]
	}
	return in
}

func messages[M any, P interface {
	*M
	proto.Message
}](t *testing.T, docs []json.RawMessage) []*M {
	t.Helper()
	var out []*M
	for _, doc := range docs {
		m := new(M)
		require.NoError(t, protojson.Unmarshal(doc, P(m)), "%s", doc)
		out = append(out, m)
	}
	return out
}

// render returns resources as YAML documents, in their order, with the names of the local replies' goldens instead of
// the replies.
func render(t *testing.T, rs []Resource) []byte {
	t.Helper()
	var out bytes.Buffer
	for i, r := range rs {
		if i > 0 {
			out.WriteString("---\n")
		}
		v := tree(t, r.Message)
		shorten(t, v)
		text, err := yaml.Marshal(v)
		require.NoError(t, err)
		out.WriteString("# " + r.Name + ", of " + r.Owner.String() + "\n")
		out.Write(text)
	}
	return out.Bytes()
}

func TestBuildGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*/input.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, inputs)
	for _, path := range inputs {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			rs, errs := Build(readInput(t, path), testOptions())
			byType := map[string][]Resource{}
			for _, r := range rs {
				name := r.Role + "." + r.Type[strings.LastIndexByte(r.Type, '.')+1:] + ".yaml"
				byType[name] = append(byType[name], r)
			}
			for name, rs := range byType {
				golden.Bytes(t, filepath.Join(dir, name), render(t, rs))
			}
			var text strings.Builder
			for _, e := range errs {
				text.WriteString(e.Error() + "\n")
			}
			golden.Bytes(t, filepath.Join(dir, "errors.txt"), []byte(text.String()))

			kept, err := filepath.Glob(filepath.Join(dir, "modelgate-*.yaml"))
			require.NoError(t, err)
			for _, file := range kept {
				require.Contains(t, byType, filepath.Base(file), "nothing of this type is built any more")
			}
		})
	}
}

func TestBuildDoesNotDependOnTheOrderOfObjects(t *testing.T) {
	in := readInput(t, "testdata/fallback/input.yaml")
	want, _ := Build(in, testOptions())
	slices.Reverse(in.Providers)
	got, _ := Build(in, testOptions())
	require.Empty(t, cmp.Diff(want, got, protocmp.Transform()))
}

func TestBuildDoesNotModifyItsInput(t *testing.T) {
	in, same := readInput(t, "testdata/fallback/input.yaml"), readInput(t, "testdata/fallback/input.yaml")
	in.Providers[0].Provider.Credential = &configv1.Credential{Source: &configv1.Credential_Env{Env: "SOME_KEY"}}
	same.Providers[0].Provider.Credential = &configv1.Credential{Source: &configv1.Credential_Env{Env: "SOME_KEY"}}
	rs, _ := Build(in, testOptions())
	require.Empty(t, cmp.Diff(same, in, protocmp.Transform()))
	require.NotContains(t, string(render(t, rs)), "SOME_KEY", "the data plane is told where a credential comes from")
}

func TestBuildKeepsSecretsFromTheWrongRole(t *testing.T) {
	fallback, _ := Build(readInput(t, "testdata/fallback/input.yaml"), testOptions())
	in := readInput(t, "testdata/jobs/input.yaml")
	in.JobSecrets = &configv1.JobSecrets{Name: "default", CarrierKey: []byte("carriers")}
	jobs, _ := Build(in, testOptions())
	types := map[string][]string{}
	for _, r := range append(fallback, jobs...) {
		text := string(render(t, []Resource{r}))
		own, ours := strings.CutPrefix(r.Type, "type.googleapis.com/modelgate.config.v1.")
		require.Equal(t, ours, r.Role != envoy.RoleEnvoy, "%s for %s", r.Type, r.Role)
		if ours {
			types[r.Role] = append(types[r.Role], own)
		}
		if r.Role != envoy.RoleExtProc {
			require.NotContains(t, text, "sk-", "a provider's credential goes to %s", r.Role)
		}
		if r.Role != envoy.RoleJobs {
			require.NotContains(t, text, "whsec_", "a webhook's secret goes to %s", r.Role)
		}
		if r.Role != envoy.RoleEnvoy {
			require.NotContains(t, text, "PRIVATE KEY", "a certificate's key goes to %s", r.Role)
		}
	}
	for role, got := range types {
		slices.Sort(got)
		types[role] = slices.Compact(got)
	}
	require.Equal(t, map[string][]string{
		envoy.RoleExtProc: {"Catalog", "Listing", "Model", "ResolvedProvider", "Route", "Settings"},
		envoy.RoleJobs:    {"Catalog", "JobSecrets", "Model", "Provider", "ResponseStore", "Webhook"},
	}, types)
}

func TestBuildErrorsDoNotQuoteSecrets(t *testing.T) {
	in := readInput(t, "testdata/broken/input.yaml")
	_, errs := Build(in, testOptions())
	require.NotEmpty(t, errs)
	for _, e := range errs {
		require.NotContains(t, e.Error(), "Z2FyYmFnZQ")
		require.NotContains(t, e.Error(), "PRIVATE KEY")
		require.NotContains(t, e.Error(), "whsec_Z")
	}
}

func TestBuildRefusesTextThatIsNotUTF8(t *testing.T) {
	in := Input{Gateways: []*configv1.Gateway{{Name: "default", Certificate: "\xff"}}}
	rs, errs := Build(in, testOptions())
	require.Len(t, rs, 1, "only the filter that every configuration has")
	require.NotEmpty(t, errs)
	require.ErrorContains(t, errs[0], "UTF-8")
}

func TestRetryClustersStripWhatAnyProviderIsGiven(t *testing.T) {
	in := readInput(t, "testdata/fallback/input.yaml")
	rs, _ := Build(in, testOptions())
	found := 0
	for _, r := range rs {
		if !strings.Contains(r.Name, "/retry") {
			continue
		}
		found++
		text := string(render(t, []Resource{r}))
		for _, header := range []string{"authorization", "x-api-key", "openai-project", "x-team"} {
			require.Contains(t, text, "- remove: "+header+"\n", r.Name)
		}
	}
	require.Equal(t, 5, found)
}

// What is signed for one place may be sent when the provider is at another: its plan must not name a cluster that
// leads there.
func TestClustersOfAProviderAreNamedByWhereTheyLead(t *testing.T) {
	build := func(change func(*configv1.Provider)) (place string, clusters []string) {
		in := readInput(t, "testdata/minimal/input.yaml")
		change(in.Providers[0].GetProvider())
		rs, errs := Build(in, testOptions())
		require.Empty(t, errs)
		for _, r := range rs {
			switch m := r.Message.(type) {
			case *clusterv3.Cluster:
				clusters = append(clusters, r.Name)
			case *configv1.ResolvedProvider:
				place = m.GetPlace()
			}
		}
		return place, clusters
	}
	place, clusters := build(func(*configv1.Provider) {})
	name := readInput(t, "testdata/minimal/input.yaml").Providers[0].GetName()
	require.Len(t, place, 32)
	for _, c := range []string{envoy.FirstCluster(name), envoy.RetryCluster(name)} {
		require.Contains(t, clusters, envoy.AtPlace(c, place))
		require.NotContains(t, clusters, c, "a name without the place leads wherever the provider is")
		require.Equal(t, name, envoy.ProviderOf(envoy.AtPlace(c, place)))
	}
	seen := map[string]bool{place: true}
	for _, move := range []func(*configv1.Provider){
		func(p *configv1.Provider) { p.Endpoint = "https://evil.example" },
		func(p *configv1.Provider) { p.Endpoint = "http://evil.example:443" },
		func(p *configv1.Provider) { p.Endpoint = "https://evil.example:8443" },
		func(p *configv1.Provider) { p.Endpoint = "unix:///evil.example" },
		func(p *configv1.Provider) { p.Tls = &configv1.UpstreamTLS{ServerName: "evil.example"} },
	} {
		moved, clusters := build(move)
		require.False(t, seen[moved])
		seen[moved] = true
		require.NotContains(t, clusters, envoy.AtPlace(envoy.FirstCluster(name), place))
	}
	same, _ := build(func(p *configv1.Provider) { p.Headers = map[string]string{"x-team": "blue"} })
	require.Equal(t, place, same, "what does not lead elsewhere keeps its connections")
}

// Report 9: what does not know that a provider waits for its credential takes it for disabled, and nothing is sent to
// it.
func TestAProviderThatWaitsForItsCredential(t *testing.T) {
	p := &configv1.ResolvedProvider{Name: "a", Waiting: true, Provider: &configv1.Provider{Name: "a", Vendor: "openai"}}
	m := &configv1.Model{Name: "m", Targets: []*configv1.Target{{Provider: "a", Model: "m"}}}
	rs, errs := Build(Input{Providers: []*configv1.ResolvedProvider{p}, Models: []*configv1.Model{m}}, testOptions())
	require.Len(t, errs, 1, "no target of the model works")
	require.Equal(t, Object{KindModel, "m"}, errs[0].Object)
	require.False(t, p.GetProvider().GetDisabled(), "the input is as it was")
	var told []Resource
	for _, r := range rs {
		if r.Owner == (Object{KindProvider, "a"}) {
			told = append(told, r)
		}
	}
	require.Len(t, told, 1, "no clusters")
	require.Equal(t, envoy.RoleExtProc, told[0].Role)
	got := told[0].Message.(*configv1.ResolvedProvider)
	require.True(t, got.GetWaiting())
	require.True(t, got.GetProvider().GetDisabled())
	require.Empty(t, got.GetCredential())
}
