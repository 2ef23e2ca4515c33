package envoygateway

import (
	"fmt"
	"maps"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/modelgate/modelgate/envoy"
)

// Static are the clusters that an Envoy of ours has from its bootstrap, and the secrets that they name.
type Static struct {
	Clusters []*clusterv3.Cluster
	Secrets  []*tlsv3.Secret
}

// A translation is the state of one call of Translate.
type translation struct {
	table    *Table
	own      Own
	enabled  *anypb.Any // turns a filter on for a route
	gateways map[string]*gateway
	used     map[string][]*gateway // by name of the RouteConfiguration
	problems []string
}

// Translate changes a table so that marked rules lead to models. It returns what is wrong with them. Without a mark,
// it changes nothing. It keeps references to own and static.
func Translate(t *Table, own Own, static Static) (problems []string, err error) {
	enabled, err := pack(&routev3.FilterConfig{Config: &anypb.Any{}})
	if err != nil {
		return nil, err
	}
	tr := &translation{table: t, own: own, enabled: enabled, gateways: map[string]*gateway{},
		used: map[string][]*gateway{}}
	for _, routes := range t.Routes {
		for _, host := range routes.GetVirtualHosts() {
			tr.host(routes.GetName(), host)
		}
	}
	if len(tr.used) == 0 {
		return tr.problems, nil
	}
	reached := map[string]bool{}
	for _, l := range t.Listeners {
		for _, m := range managers(l) {
			name := m.manager.GetRds().GetRouteConfigName()
			gateways := tr.used[name]
			if len(gateways) == 0 {
				continue
			}
			reached[name] = true
			if err := extend(m, gateways); err != nil {
				return nil, fmt.Errorf("listener %s: %w", l.GetName(), err)
			}
		}
	}
	for name := range tr.used {
		if !reached[name] {
			tr.problem("the routes %s have no listener: Envoy Gateway has to show listeners (hooks.xdsTranslator.translation.listener.includeAll)",
				name)
		}
	}
	tr.addClusters(static)
	slices.Sort(tr.problems)
	return slices.Compact(tr.problems), nil
}

func (tr *translation) problem(format string, args ...any) {
	tr.problems = append(tr.problems, fmt.Sprintf(format, args...))
}

// host replaces the marked routes of a host.
func (tr *translation) host(routes string, host *routev3.VirtualHost) {
	var all []*routev3.Route
	var gateways []*gateway
	for _, r := range host.GetRoutes() {
		name, _, ok := markOf(r)
		if !ok {
			all = append(all, r)
			continue
		}
		g, err := tr.gateway(name)
		if err != nil {
			tr.problem("route %s: %v", r.GetName(), err)
			all = append(all, refused(r, err.Error()))
			continue
		}
		if !slices.Contains(gateways, g) {
			gateways = append(gateways, g)
		}
		if !slices.Contains(tr.used[routes], g) {
			tr.used[routes] = append(tr.used[routes], g)
		}
		all = append(all, g.entries(r, tr.enabled)...)
	}
	if len(gateways) > 0 {
		all = append(onward(gateways), all...)
	}
	host.Routes = all
}

func (tr *translation) gateway(name string) (*gateway, error) {
	if g := tr.gateways[name]; g != nil {
		return g, nil
	}
	g, err := tr.own.gateway(name)
	if err == nil {
		tr.gateways[name] = g
	}
	return g, err
}

// extend gives a listener the filters of Gateways. Logs, and errors in the form of the API, are for their requests
// alone, and the same for all of them.
func extend(of managed, gateways []*gateway) error {
	m, from := of.manager, gateways[0].manager
	last := len(m.GetHttpFilters()) - 1
	router, own := &routerv3.Router{}, &routerv3.Router{}
	if last < 0 || m.GetHttpFilters()[last].GetTypedConfig().UnmarshalTo(router) != nil {
		return errNoRouter
	}
	if err := from.GetHttpFilters()[len(from.GetHttpFilters())-1].GetTypedConfig().UnmarshalTo(own); err != nil {
		return err
	}
	router.UpstreamLog = append(router.UpstreamLog, own.GetUpstreamLog()...)
	config, err := pack(router)
	if err != nil {
		return err
	}
	m.HttpFilters[last].ConfigType = &hcmv3.HttpFilter_TypedConfig{TypedConfig: config}
	for _, g := range gateways {
		m.HttpFilters = slices.Insert(m.HttpFilters, len(m.HttpFilters)-1, g.filters...)
	}
	m.AccessLog = append(m.AccessLog, from.GetAccessLog()...)
	if m.LocalReplyConfig == nil {
		m.LocalReplyConfig = &hcmv3.LocalReplyConfig{}
	}
	m.LocalReplyConfig.Mappers = slices.Concat(from.GetLocalReplyConfig().GetMappers(),
		m.LocalReplyConfig.GetMappers())
	if m.SchemeHeaderTransformation == nil {
		m.SchemeHeaderTransformation = from.GetSchemeHeaderTransformation()
	}
	if config, err = pack(m); err != nil {
		return err
	}
	of.filter.GetTypedConfig().Reset()
	of.filter.GetTypedConfig().TypeUrl, of.filter.GetTypedConfig().Value = config.GetTypeUrl(), config.GetValue()
	return nil
}

// addClusters adds the clusters that plans name, and the secrets of those.
func (tr *translation) addClusters(static Static) {
	t, there := tr.table, map[string]bool{}
	for _, c := range t.Clusters {
		there[c.GetName()] = true
	}
	clusters := slices.Clone(static.Clusters)
	for _, name := range slices.Sorted(maps.Keys(tr.own.clusters)) {
		clusters = append(clusters, tr.own.clusters[name])
	}
	for _, c := range clusters {
		if there[c.GetName()] {
			tr.problem("there is another cluster %s", c.GetName())
			continue
		}
		t.Clusters = append(t.Clusters, c)
	}
	t.Secrets = append(t.Secrets, static.Secrets...)
	tls := &tlsv3.UpstreamTlsContext{}
	if tr.own.clusters[envoy.ClusterJobs].GetTransportSocket().GetTypedConfig().UnmarshalTo(tls) != nil {
		return
	}
	for _, c := range tls.GetCommonTlsContext().GetTlsCertificateSdsSecretConfigs() {
		if s := tr.own.secrets[c.GetName()]; s != nil {
			t.Secrets = append(t.Secrets, s)
		}
	}
}
