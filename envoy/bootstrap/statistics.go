package bootstrap

import (
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// Statistics matches the names of Envoy's statistics that operators need. Envoy keeps no others: those would be
// several hundred for each of a provider's clusters, and for each worker of a listener, and each request counts in
// some. Those of HTTP have the prefixes that the control plane gives.
const Statistics = `^(` +
	`http\.(edge|jobs|plain)\.(downstream_rq_(active|total|time|[1-5]xx|timeout|idle_timeout|overload_close|rx_reset|tx_reset|too_large)` +
	`|downstream_cx_(active|total|rx_bytes_total|tx_bytes_total|drain_close|overload_disable_keepalive)|rds\..*\.update_rejected|ext_proc\..*)` +
	`|edge\.http_local_rate_limit\.(enforced|rate_limited)` +
	`|cluster\..*\.(upstream_rq_(active|total|time|[1-5]xx|timeout|per_try_timeout|rx_reset|tx_reset|pending_(active|overflow|failure_eject)|retry|retry_success|retry_overflow)` +
	`|upstream_cx_(active|total|connect_fail|connect_timeout|overflow)|membership_(healthy|total)|ssl\.(connection_error|fail_.*)|ext_proc\..*)` +
	`|listener\.[0-9a-f._\[\]]*_[0-9]+\.(downstream_cx_(active|total|overflow|overload_reject)|downstream_global_cx_overflow|ssl\.(connection_error|handshake|fail_.*))` +
	`|listener_manager\.(listener_(create_failure|modified)|total_listeners_.*|total_filter_chains_draining|workers_started|lds\.update_(success|rejected))` +
	`|cluster_manager\.(active_clusters|warming_clusters|cds\.update_(success|rejected))` +
	`|control_plane\.connected_state|sds\..*\.update_rejected|overload\..*` +
	`|server\.(live|state|uptime|concurrency|memory_.*|total_connections|days_until_first_cert_expiring|envoy_bug_failures|version)` +
	`)$`

func statistics() *metricsv3.StatsConfig {
	return &metricsv3.StatsConfig{StatsMatcher: &metricsv3.StatsMatcher{
		StatsMatcher: &metricsv3.StatsMatcher_InclusionList{InclusionList: &matcherv3.ListStringMatcher{
			Patterns: []*matcherv3.StringMatcher{{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
				SafeRegex: &matcherv3.RegexMatcher{Regex: Statistics}}}}}}}}
}
