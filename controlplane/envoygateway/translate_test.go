package envoygateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3" // of testdata/shown.json
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/health_check/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/least_request/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/envoy/bootstrap"
	"github.com/modelgate/modelgate/internal/golden"
	"github.com/modelgate/modelgate/internal/provider/all"
)

// table returns what Envoy Gateway 1.9.1 has shown of the resources in test/envoygateway/testdata.
func table(t *testing.T) *Table {
	t.Helper()
	text, err := os.ReadFile("testdata/shown.json")
	require.NoError(t, err)
	var shown map[string][]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &shown))
	out := &Table{}
	read(t, shown["clusters"], &out.Clusters)
	read(t, shown["secrets"], &out.Secrets)
	read(t, shown["listeners"], &out.Listeners)
	read(t, shown["routes"], &out.Routes)
	return out
}

func read[M proto.Message](t *testing.T, texts []json.RawMessage, to *[]M) {
	t.Helper()
	for _, text := range texts {
		var empty M
		m := empty.ProtoReflect().New().Interface().(M)
		require.NoError(t, protojson.Unmarshal(text, m))
		*to = append(*to, m)
	}
}

// own returns the resources of Gateways with a provider.
func own(t *testing.T, gateways ...*configv1.Gateway) Own {
	t.Helper()
	resources, errs := xds.Build(xds.Input{
		Gateways: gateways,
		Routes: []*configv1.Route{{Name: "elsewhere", PathPrefix: "/v1/ocr", Provider: "echo",
			Gateways: []string{"other"}}},
		Providers: []*configv1.ResolvedProvider{{Name: "echo",
			Provider: &configv1.Provider{Name: "echo", Vendor: "echo", Endpoint: "http://127.0.0.1:9000"}}},
	}, xds.Options{Providers: all.Providers()})
	for _, e := range errs {
		require.ErrorContains(t, e, "certificate", "which this Envoy does not need")
	}
	return OwnOf(func(yield func(proto.Message) bool) {
		for _, r := range resources {
			if r.Role == envoy.RoleEnvoy && !yield(r.Message) {
				return
			}
		}
	})
}

func static(t *testing.T) Static {
	t.Helper()
	clusters, secrets, err := bootstrap.Shared(bootstrap.Addresses{{Host: "extproc", Port: 9001}}, &bootstrap.TLS{
		CA: "/tls/ca.crt", Certificate: "/tls/tls.crt", Key: "/tls/tls.key", ServerName: "extproc"})
	require.NoError(t, err)
	return Static{clusters, secrets}
}

func TestMarkedRulesLeadToModels(t *testing.T) {
	changed := table(t)
	problems, err := Translate(changed, own(t, &configv1.Gateway{Name: "default", Port: 443,
		Hostnames: []string{"models.example.com"},
		Cors:      &configv1.Cors{Origins: []string{"https://app.example.com"}}}), static(t))
	require.NoError(t, err)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], `there is no Gateway "absent"`)
	for _, c := range changed.Clusters {
		require.NoError(t, c.ValidateAll())
	}
	var text bytes.Buffer
	for _, r := range changed.Routes {
		require.NoError(t, r.ValidateAll())
		render(t, &text, r)
	}
	for _, l := range changed.Listeners {
		require.NoError(t, l.ValidateAll())
		for _, m := range managers(l) {
			require.NoError(t, m.manager.ValidateAll())
			text.WriteString("--- # " + l.GetName() + "\n")
			for _, f := range m.manager.GetHttpFilters() {
				fmt.Fprintf(&text, "- %s, disabled: %t\n", f.GetName(), f.GetDisabled())
			}
		}
	}
	text.WriteString("--- # clusters and secrets\n")
	for _, c := range changed.Clusters {
		text.WriteString("- " + c.GetName() + "\n")
	}
	for _, s := range changed.Secrets {
		text.WriteString("- " + s.GetName() + "\n")
	}
	golden.Bytes(t, "testdata/changed.yaml", text.Bytes())
}

func render(t *testing.T, to *bytes.Buffer, m proto.Message) {
	t.Helper()
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	require.NoError(t, err)
	text, err = yaml.JSONToYAML(text)
	require.NoError(t, err)
	to.WriteString("---\n")
	to.Write(text)
}

// TestWhatHasNoMarkIsUntouched also has a listener without a mark beside one with it.
func TestWhatHasNoMarkIsUntouched(t *testing.T) {
	without := table(t)
	for _, routes := range without.Routes {
		for _, host := range routes.GetVirtualHosts() {
			host.Routes = slices.DeleteFunc(host.Routes, func(r *routev3.Route) bool {
				_, _, ok := markOf(r)
				return ok
			})
		}
	}
	before, err := without.Response()
	require.NoError(t, err)
	problems, err := Translate(without, own(t), static(t))
	require.NoError(t, err)
	require.Empty(t, problems)
	after, err := without.Response()
	require.NoError(t, err)
	require.Equal(t, before, after)

	both := table(t)
	i := slices.IndexFunc(both.Listeners, func(l *listenerv3.Listener) bool {
		return managers(l)[0].manager.GetRds() != nil
	})
	other := proto.CloneOf(both.Listeners[i])
	m := managers(other)[0]
	m.manager.GetRds().RouteConfigName = "other"
	config, err := pack(m.manager)
	require.NoError(t, err)
	m.filter.GetTypedConfig().Value = config.GetValue()
	both.Listeners = append(both.Listeners, proto.CloneOf(other))
	_, err = Translate(both, own(t, &configv1.Gateway{Name: "default", Port: 443}), static(t))
	require.NoError(t, err)
	require.True(t, proto.Equal(other, both.Listeners[len(both.Listeners)-1]))
	require.False(t, proto.Equal(other, both.Listeners[i]))
}

func TestWithoutListenersRulesLeadNowhere(t *testing.T) {
	shown := table(t)
	shown.Listeners = nil
	problems, err := Translate(shown, own(t, &configv1.Gateway{Name: "default", Port: 443}), static(t))
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(problems), "hooks.xdsTranslator.translation.listener.includeAll")
	for _, r := range shown.Routes[0].GetVirtualHosts()[0].GetRoutes() {
		if r.GetName() == envoy.RouteEntry {
			require.Equal(t, envoy.ClusterDeadEnd, r.GetRoute().GetCluster())
		}
	}
}

func TestRequestsAreReadAndResponsesWritten(t *testing.T) {
	shown := table(t)
	response, err := shown.Response()
	require.NoError(t, err)
	// A request has the numbers of a response and one more, for the policies before.
	read, err := Parse([]byte{})
	require.NoError(t, err)
	require.Equal(t, &Table{}, read)
	_, err = Parse(response[:len(response)-1])
	require.Error(t, err)
	_, err = Parse([]byte{2<<3 | 2, 1, 0xff})
	require.ErrorContains(t, err, "field 2")
}
