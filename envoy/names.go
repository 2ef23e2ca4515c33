// Package envoy has the names that the control plane and the ext_proc service share: clusters, routes, metadata.
//
// The plan of a request is sent as dynamic metadata, never as headers. A client can forge a header, but cannot write
// metadata.
package envoy

import (
	"strings"
	"time"
)

// Clusters that every Envoy has from its bootstrap.
const (
	ClusterExtProc = "extproc"  // the ext_proc service beside this Envoy
	ClusterXDS     = "xds"      // the control plane
	ClusterDeadEnd = "dead_end" // no endpoints: what was not planned goes nowhere
)

// ClusterJobs is the job service, as the object JobService says where it is.
const ClusterJobs = "jobs"

// LongestWait is how long Envoy waits for the reply to the body of a request that waits: for checkers, for the answer
// to an equal request, for vectors, and for its turn at a provider. It is longer than the bounds of these together.
const LongestWait = 90 * time.Second

// GatewayListener begins the name of every listener that clients reach.
const GatewayListener = "gateway/"

// Node.cluster tells the control plane what a client is. What is meant for one role is never served to another.
const (
	RoleEnvoy   = "modelgate-envoy"
	RoleExtProc = "modelgate-extproc"
	RoleJobs    = "modelgate-jobsvc"
)

// Names of routes, as they appear in access logs.
const (
	RouteEntry   = "entry"
	RoutePlanned = "planned"
	RoutePassed  = "passed"
	RouteJobs    = "jobs"
	// RouteSession is the route of a planned session of the Realtime API.
	RouteSession = "session"
	// RouteReplayed is the route of a request whose answer is a kept stream. Envoy itself answers.
	RouteReplayed = "replayed"
)

// Dynamic metadata.
const (
	// Metadata is the namespace of the ext_proc service's metadata about a request.
	Metadata = "mg"
	// MetadataKind is set on a request that may go on; the routes planned and passed match on it.
	MetadataKind = "kind"
	// MetadataLog is set, to anything, on a request whose record in the access log is wanted however it ends.
	MetadataLog = "log"
	// MetadataRequest identifies the exchange within its ext_proc process.
	MetadataRequest = "rid"
	// MetadataEntered is set by Envoy on a request of a gateway in a listener that has others, too.
	MetadataEntered = "entered"
	// MetadataDialect is the client's dialect. Envoy writes its own errors in it.
	MetadataDialect = "dialect"
	// MetadataRequestID is the x-request-id. The header itself does not go to providers, so Envoy has removed it from the
	// request when it fails at one.
	MetadataRequestID = "request_id"
	// MetadataContentLength is the length of a retry's body.
	MetadataContentLength = "content_length"
	// MetadataPlan is the namespace of the priority groups, one for each attempt.
	MetadataPlan = "mg.plan"
	// MetadataProvider is the key, in the namespace Metadata of a provider's clusters, of the provider's name.
	MetadataProvider = "provider"

	KindLLM    = "llm"    // translated, or passed to one of several providers
	KindPassed = "passed" // of a Route, or the job service's own request to a provider
	KindJobs   = "jobs"   // to the job service
	// KindSession is a session of the Realtime API: an upgraded connection to one of several providers
	KindSession = "session"
	// KindReplayed is a request whose answer the ext_proc service sends piece by piece
	KindReplayed = "replayed"
)

// The :authority of an ext_proc stream says which filter opened it. Clients cannot forge it. An authority that no
// filter has set is the cluster's, ClusterExtProc: RoleDownstream, on a listener that holds requests as DrainsHeader
// says. gRPC metadata would cost more, because Envoy copies and compares a filter's metadata many times for each
// request.
const (
	RoleDownstream = "down" // the filter of the listener: one stream for each request
	RoleUpstream   = "up"   // the filter of a retry or session cluster: one stream for each attempt
	// the filter of the listener that only the job service reaches: like down, but headers below are believed
	RoleInternal = "jobs"
)

// RoleHeader is gRPC metadata in place of the authority. A control plane of the version before has Envoy send it.
const RoleHeader = "x-role"

// CertificatesHeader is gRPC metadata on an ext_proc stream of a gateway, by name, whose clients may present
// certificates. Only there is the header HeaderCertificate Envoy's.
const CertificatesHeader = "x-certificates"

// HeaderCertificate is the header in which Envoy passes the certificate that a client has presented
// (https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/headers#x-forwarded-client-cert).
const HeaderCertificate = "x-forwarded-client-cert"

// DrainsHeader is gRPC metadata beside RoleHeader. The listener holds a request from its way on while the body of it
// comes.
const DrainsHeader = "x-drains"

// Headers between the job service and the ext_proc service. To the job service they say who asks: the ext_proc service
// sets them, and what a client sends under these names never passes. From the job service, on its own listener, they
// say on whose behalf it asks.
const (
	// HeaderKey is the name of a Key object. From the job service: the request is authenticated as that key's.
	HeaderKey = "x-modelgate-key"
	// HeaderLength is the content-length that the client has announced. The body itself goes on in chunks: its end is the
	// client's then.
	HeaderLength = "x-modelgate-length"
	// HeaderOrganization and HeaderProject are the key's organization and project, percent-encoded as
	// url.QueryEscape does.
	HeaderOrganization = "x-modelgate-organization"
	HeaderProject      = "x-modelgate-project"
	// HeaderProvider, from the job service in place of HeaderKey, has the request pass to that provider as it is, with
	// the path relative to the provider's endpoint, and the credential added.
	HeaderProvider = "x-modelgate-to-provider"
	// HeaderCharge, from the job service, is the id under which the exchange is charged: exchanges with the same id are
	// charged once, whichever of them is seen first.
	HeaderCharge = "x-modelgate-charge"
	// ChargeAgain ends the value of HeaderCharge if the job service asks again where waiting may help.
	ChargeAgain = " again"
)

// Headers on the listener at AgainSocket, which only the ext_proc service reaches.
const (
	// HeaderCluster is the cluster of a request.
	HeaderCluster = "x-modelgate-cluster"
	// HeaderDetails is the reason of an answer that Envoy makes itself.
	HeaderDetails = "x-modelgate-details"
)

// AgainSocket is the path of the Unix socket at which Envoy takes attempts of the ext_proc service whose own socket is
// at a path: beside it.
func AgainSocket(extProc string) string { return strings.TrimSuffix(extProc, ".sock") + ".again.sock" }

// Attributes that the ext_proc filters send.
const (
	AttributeClusterName  = "xds.cluster_name"
	AttributeAttempt      = "upstream.request_attempt_count"
	AttributeCodeDetails  = "response.code_details"
	CodeDetailsUpstream   = "via_upstream"
	CodeDetailsOwn        = "direct_response" // of the route replayed
	ImmediateDetailPrefix = "mg_"             // of every reply that the ext_proc service makes itself
)

// The logs in Envoy's gRPC access log stream: of requests, and of attempts that have failed.
const (
	LogRequests = "mg"
	LogAttempts = "mg-attempts"
)

// FirstCluster is the cluster of a provider's first attempt, which has no upstream filter.
func FirstCluster(provider string) string { return provider + "/first" }

// RetryCluster is the cluster of a provider's further attempts, whose upstream filter strips and rewrites the request.
func RetryCluster(provider string) string { return provider + "/retry" }

// SessionCluster is the cluster of all attempts to open a session at a provider. Like a retry cluster, it has an
// upstream filter. It speaks HTTP/1.1, because few servers take a WebSocket over HTTP/2.
func SessionCluster(provider string) string { return provider + "/session" }

// PathRealtime is the path of the Realtime API, the only one on which Envoy upgrades a connection.
const PathRealtime = "/v1/realtime"

// AtPlace returns the cluster of a provider that leads to a place. A request that was signed for one place never goes
// to another, whatever the configuration has become meanwhile: its plan names the cluster of that place, which may be
// gone.
func AtPlace(cluster, place string) string {
	if place == "" {
		return cluster
	}
	return cluster + "/" + place
}

// ProviderOf returns the provider whose cluster it is, or "".
func ProviderOf(cluster string) string {
	name, kind, ok := strings.Cut(cluster, "/")
	kind, _, _ = strings.Cut(kind, "/")
	if !ok || (kind != "first" && kind != "retry" && kind != "session") {
		return ""
	}
	return name
}

// HeaderAddress is where Envoy says which address a request is from. With use_remote_address it sets the header on
// every request that comes over IP, whatever the client has sent: to the connection's address or, with trusted hops,
// to the one that the outermost trusted proxy has put into x-forwarded-for. That header itself holds what the client
// likes.
const HeaderAddress = "x-envoy-external-address"
