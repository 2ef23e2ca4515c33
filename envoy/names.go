// Package envoy holds the names that the control plane and the ext_proc service agree on: clusters, routes, metadata.
//
// What a newcomer gets wrong: the plan of a request travels as dynamic metadata, never as headers. A client can forge a
// header; it cannot write metadata.
package envoy

import "strings"

// Clusters that every Envoy has from its bootstrap.
const (
	ClusterExtProc = "extproc"  // the ext_proc service beside this Envoy
	ClusterXDS     = "xds"      // the control plane
	ClusterDeadEnd = "dead_end" // no endpoints: what was not planned goes nowhere
)

// Node.cluster tells the control plane what a client is. What is meant for one role is never served to another.
const (
	RoleEnvoy   = "modelgate-envoy"
	RoleExtProc = "modelgate-extproc"
)

// Names of routes, as they appear in access logs.
const (
	RouteEntry   = "entry"
	RoutePlanned = "planned"
	RoutePassed  = "passed"
)

// Dynamic metadata.
const (
	// Metadata is the namespace of what the ext_proc service says about a request.
	Metadata = "mg"
	// MetadataKind is set on a request that may go on; the routes planned and passed match on it.
	MetadataKind = "kind"
	// MetadataLog is set, to anything, on a request whose record in the access log is wanted however it ends.
	MetadataLog = "log"
	// MetadataRequest identifies the exchange within its ext_proc process.
	MetadataRequest = "rid"
	// MetadataContentLength is the length of a retry's body.
	MetadataContentLength = "content_length"
	// MetadataPlan is the namespace of the priority groups, one for each attempt.
	MetadataPlan = "mg.plan"
	// MetadataProvider is the key, in the namespace Metadata of a provider's clusters, of the provider's name.
	MetadataProvider = "provider"

	KindLLM    = "llm"    // translated, or passed to one of several providers
	KindPassed = "passed" // of a Route
)

// gRPC metadata on an ext_proc stream that says which filter opened it.
const (
	RoleHeader     = "x-role"
	RoleDownstream = "down" // the filter of the listener: one stream for each request
	RoleUpstream   = "up"   // the filter of a retry cluster: one stream for each further attempt
)

// Attributes that the ext_proc filters send.
const (
	AttributeClusterName  = "xds.cluster_name"
	AttributeAttempt      = "upstream.request_attempt_count"
	AttributeCodeDetails  = "response.code_details"
	CodeDetailsUpstream   = "via_upstream"
	ImmediateDetailPrefix = "mg_" // of every reply that the ext_proc service makes itself
)

// LogRequests names the log of requests in Envoy's gRPC access log stream.
const LogRequests = "mg"

// FirstCluster is the cluster of a provider's first attempt, which has no upstream filter.
func FirstCluster(provider string) string { return provider + "/first" }

// RetryCluster is the cluster of a provider's further attempts, whose upstream filter strips and rewrites the request.
func RetryCluster(provider string) string { return provider + "/retry" }

// ProviderOf returns the provider whose cluster it is, or "".
func ProviderOf(cluster string) string {
	name, kind, ok := strings.Cut(cluster, "/")
	if !ok || (kind != "first" && kind != "retry") {
		return ""
	}
	return name
}
