package gatewayapi

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/owned"
	"github.com/modelgate/modelgate/internal/configstore"
)

const (
	// Group is that of the Gateway API.
	Group = "gateway.networking.k8s.io"
	// Controller is how GatewayClasses name this gateway, unless there are several in a cluster.
	Controller = "modelgate.dev/gateway-controller"
	// scheme is how names of what declares an object begin.
	scheme = "gateway-api:"
)

const (
	kindGateway = "Gateway"
	kindRoute   = "HTTPRoute"
	kindSecret  = "Secret"
	kindPolicy  = "BackendTLSPolicy"
)

// A Ref names an object of Kubernetes.
type Ref struct{ Kind, Namespace, Name string }

// A Tenancy is to whom a namespace belongs. Names of a tenant's objects begin with the prefix.
type Tenancy struct {
	Platform                      bool
	Organization, Project, Prefix string
}

// A World is what there is in Kubernetes, and in the configuration.
type World struct {
	// Controller is the name in GatewayClasses, and Platform the namespace in which Gateways are made.
	Controller, Platform      string
	Classes, Gateways, Routes []*unstructured.Unstructured
	Policies                  []*unstructured.Unstructured // BackendTLSPolicies
	// Bundle is the version of the definitions of the Gateway API, or "".
	Bundle string
	// ServiceName is the Service that leads to the data plane. "": ports are those of listeners, and addresses are not
	// known.
	ServiceName string
	Service     *unstructured.Unstructured // nil: it is not there
	// Labels returns those of a namespace, and Tenancy to whom it belongs.
	Labels  func(namespace string) map[string]string
	Tenancy func(namespace string) (Tenancy, error)
	// Secret returns a Secret; nil if it is not there.
	Secret func(namespace, name string) (*unstructured.Unstructured, error)
	// May says why an object must not refer to one in another namespace.
	May func(from, to Ref) error
	// Named returns the name in the gateway of an object of ours, and Stored what is stored of it, unless it is a Model
	// that an HTTPRoute declares.
	Named  func(kind, namespace, name string) string
	Stored func(kind, name string) configv1.Object
}

// A Plan is what objects of the Gateway API declare.
type Plan struct {
	world    *World
	declared []owned.Declared
	classes  []*class
	gateways []*gateway
	routes   []*route
	kept     map[string]bool          // owners whose last good version stays in force
	keptRefs map[configstore.Ref]bool // likewise
	ports    map[uint32]*listener
	paths    map[string]*route // by path, or name of a Model
}

// Translate returns what objects declare. Of two that claim the same, the older has it.
func Translate(w *World) *Plan {
	p := &Plan{world: w, kept: map[string]bool{}, keptRefs: map[configstore.Ref]bool{}, ports: map[uint32]*listener{},
		paths: map[string]*route{}}
	byName := map[string]*class{}
	for _, o := range oldestFirst(w.Classes) {
		if c := p.class(o); c != nil {
			p.classes = append(p.classes, c)
			byName[o.GetName()] = c
		}
	}
	for _, o := range oldestFirst(w.Gateways) {
		spec := specOf(o)
		if c := byName[spec.text("gatewayClassName", "")]; c != nil {
			p.gateways = append(p.gateways, p.gateway(o, spec, c))
		}
	}
	for _, o := range oldestFirst(w.Routes) {
		if r := p.route(o); r != nil {
			p.routes = append(p.routes, r)
		}
	}
	return p
}

// Declared returns what is to be stored.
func (p *Plan) Declared() []owned.Declared { return p.declared }

// Keeps reports whether an object that is stored stays, although nothing declares it now: the object of Kubernetes is
// wrong, and its last good version stays in force.
func (p *Plan) Keeps(ref configstore.Ref, o configstore.Owner) bool {
	return p.kept[o.By] || p.keptRefs[ref]
}

// Owns reports whether an owner is an object of the Gateway API.
func Owns(o configstore.Owner) bool { return strings.HasPrefix(o.By, scheme) }

func oldestFirst(all []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.SortedFunc(slices.Values(all), func(a, b *unstructured.Unstructured) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
			cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

func ownerOf(kind string, o *unstructured.Unstructured) configstore.Owner {
	return configstore.Owner{By: scheme + kind + "/" + o.GetNamespace() + "/" + o.GetName(), ID: string(o.GetUID())}
}

func kindNamed(name string) configv1.Kind {
	k, _ := configv1.FindKind(name)
	return k
}

func declare(kind string, o configv1.Object, by configstore.Owner) owned.Declared {
	return owned.Declared{Kind: kindNamed(kind), Name: o.GetName(), Object: o, Owner: by}
}
