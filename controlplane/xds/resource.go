package xds

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
)

// Kinds of the configuration objects that resources are built from. KindSystem is for resources that are the same for
// every configuration.
const (
	KindProvider     = "Provider"
	KindModel        = "Model"
	KindKey          = "Key"
	KindGateway      = "Gateway"
	KindCertificate  = "Certificate"
	KindRoute        = "Route"
	KindCatalog      = "Catalog"
	KindJobService   = "JobService"
	KindWebhook      = "Webhook"
	KindListing      = "Listing"
	KindOrganization = "Organization"
	KindProject      = "Project"
	KindRateLimit    = "RateLimit"
	KindIssuer       = "CertificateIssuer"
	KindSettings     = "Settings"
	KindResponses    = "ResponseStore"
	KindJobSecrets   = "JobSecrets"
	KindSystem       = "System"
)

// An Object names a configuration object.
type Object struct {
	Kind string
	Name string
}

// String returns "Kind/name", for errors and logs.
func (o Object) String() string { return o.Kind + "/" + o.Name }

// A Resource is one xDS resource for one role of clients.
type Resource struct {
	// Role is the node.cluster of its clients: envoy.RoleEnvoy, envoy.RoleExtProc or envoy.RoleJobs.
	Role string
	// Type is the type URL.
	Type string
	// Name is unique within Role and Type.
	Name string
	// Owner is the object that it was built from. All resources of an owner belong together: if one is refused, the
	// others are useless.
	Owner Object
	// Message is the resource itself. It is shared and must not be modified.
	Message proto.Message
}

// An ObjectError is an error in an object. It never has a secret.
type ObjectError struct {
	Object Object
	Err    error
	// Withdraws means that nothing of the object may be served any more, not even its last good version.
	Withdraws bool
}

// Error returns the object and what is wrong with it.
func (e ObjectError) Error() string { return fmt.Sprintf("%s: %v", e.Object, e.Err) }

// Unwrap returns the error without the object.
func (e ObjectError) Unwrap() error { return e.Err }

// TypeURL returns the type URL of resources that are messages of m's type.
func TypeURL(m proto.Message) string {
	return "type.googleapis.com/" + string(proto.MessageName(m))
}

func sortResources(rs []Resource) {
	slices.SortFunc(rs, func(a, b Resource) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
	})
}

func sortErrors(es []ObjectError) {
	slices.SortStableFunc(es, func(a, b ObjectError) int {
		return cmp.Or(cmp.Compare(a.Object.Kind, b.Object.Kind), cmp.Compare(a.Object.Name, b.Object.Name))
	})
}
