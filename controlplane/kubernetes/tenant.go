package kubernetes

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/modelgate/modelgate/api/config/crd"
	"github.com/modelgate/modelgate/api/config/options"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/id"
)

// Labels by which the platform's owner says to whom a namespace belongs.
const (
	LabelOrganization = crd.Group + "/organization"
	LabelProject      = crd.Group + "/project"
)

// between a namespace and a name in the names of a tenant's objects. No namespace has it, so that no two objects have
// the same name.
const between = "--"

// A tenancy is to whom the objects of a namespace belong.
type tenancy struct {
	platform bool
	authz.Tenant
}

// tenancyOf returns to whom a namespace belongs, or why its objects are not taken.
func (w *watches) tenancyOf(namespace string) (tenancy, *refusal) {
	if namespace == w.options.Platform {
		return tenancy{platform: true}, nil
	}
	k := key{kind: namespaces, name: namespace}
	n := w.get(k)
	if why := w.troubleOf(w.placeOf(k)); why != "" {
		return tenancy{}, refuse(reasonForbidden, "it is not known to whom the namespace belongs: %s", why)
	}
	if n == nil {
		return tenancy{}, refuse(reasonNotBound, "the namespace is not there any more")
	}
	labels := n.GetLabels()
	t := tenancy{Tenant: authz.Tenant{Organization: labels[LabelOrganization], Project: labels[LabelProject]}}
	switch {
	case t.Organization == "":
		return t, refuse(reasonNotBound,
			"the namespace belongs to nobody: the platform's owner labels it with %s, or with %s too, or objects are made in %s",
			LabelOrganization, LabelProject, w.options.Platform)
	case strings.Contains(namespace, between):
		return t, refuse(reasonNotBound, "the namespace of a tenant must not have %s in its name", between)
	}
	return t, nil
}

// mayTenant reports whether the namespace of a tenant may have objects of a kind: they are of an organization and a
// project, and give no rights.
func mayTenant(k configv1.Kind) bool {
	fields := k.New().ProtoReflect().Descriptor().Fields()
	return fields.ByName("organization") != nil && fields.ByName("project") != nil && k.Area() != "admins" &&
		k.Options.GetWriteScope() == ""
}

// nameOf returns what an object is called in the gateway.
func (t tenancy) nameOf(k configv1.Kind, o *unstructured.Unstructured) string {
	switch {
	case k.Name == configv1.KeyKind().Name:
		return "key_" + id.Derived(o.GetCreationTimestamp().Time, string(o.GetUID()))
	case generated(k):
		return authz.TokenIDPrefix + "_" + id.Derived(o.GetCreationTimestamp().Time, string(o.GetUID()))
	case options.Of(k.New().ProtoReflect().Descriptor().Fields().ByName("name")).GetForm() == options.Form_SINGLE:
		return "default"
	}
	name, _, _ := unstructured.NestedString(o.Object, "spec", "name")
	if name == "" {
		name = o.GetName()
	}
	return t.named(o.GetNamespace(), name)
}

// named returns what an object of a namespace is called in the gateway.
func (t tenancy) named(namespace, name string) string {
	if t.platform {
		return name
	}
	return namespace + between + name
}

// claim makes an object the tenant's own, or says why it cannot be.
func (t tenancy) claim(k configv1.Kind, spec map[string]any) *refusal {
	if t.platform {
		return nil
	}
	if !mayTenant(k) {
		return refuse(reasonNotPermitted, "the namespace of a tenant may not have objects of the kind %s", k.Name)
	}
	for field, own := range map[string]string{"organization": t.Organization, "project": t.Project} {
		switch written, _ := spec[field].(string); {
		case own == "", written == own:
		case written == "":
			spec[field] = own
		default:
			return refuse(reasonNotPermitted, "the namespace belongs to %s, and cannot have objects of another %s", t.Tenant, field)
		}
	}
	return nil
}

// refers returns why an object may not refer to one in another namespace, if no ReferenceGrant there lets it.
func (w *watches) refers(from key, kind, namespace, name string) error {
	if !w.watched(namespace) {
		return refuse(reasonRefNotPermitted, "%s %s/%s: the namespace is not watched", kindOf(kind), namespace, name)
	}
	in := w.placeOf(key{kind: grants, namespace: namespace})
	if w.granted(w.of(in).GetStore().List(), from, kind, namespace, name) {
		return nil
	}
	r := refuse(reasonRefNotPermitted,
		"%s %s/%s: a ReferenceGrant in %s has to let objects of the kind %s in %s refer to it", kindOf(kind), namespace,
		name, namespace, kindOf(from.kind), from.namespace)
	if why := w.troubleOf(in); why != "" {
		r.message += ". Those that there are cannot be read: " + why
		r.ends, r.waits = false, true
	}
	return r
}

// granted reports whether one of several grants lets it.
func (w *watches) granted(all []any, from key, kind, namespace, name string) bool {
	for _, o := range all {
		g, ok := o.(*unstructured.Unstructured)
		if !ok || g.GetNamespace() != namespace {
			continue
		}
		if entry(g, "from", func(e map[string]any) bool {
			return e["group"] == resourceOf(from.kind).Group && e["kind"] == kindOf(from.kind) &&
				e["namespace"] == from.namespace
		}) && entry(g, "to", func(e map[string]any) bool {
			of, _ := e["name"].(string)
			given, _ := e["group"].(string)
			return given == resourceOf(kind).Group && e["kind"] == kindOf(kind) && (of == "" || of == name)
		}) {
			return true
		}
	}
	return false
}

func entry(o *unstructured.Unstructured, list string, fits func(map[string]any) bool) bool {
	entries, _, _ := unstructured.NestedSlice(o.Object, "spec", list)
	for _, e := range entries {
		if m, ok := e.(map[string]any); ok && fits(m) {
			return true
		}
	}
	return false
}

// A refusal says in a condition why an object is not taken.
type refusal struct {
	reason, message string
	refs            bool // it is of what the object refers to
	waits           bool // the last good version stays in force until it is there
	ends            bool // who lost a right has nothing in force by it
}

func refuse(reason, format string, args ...any) *refusal {
	return &refusal{reason: reason, message: fmt.Sprintf(format, args...), refs: reason == reasonRefNotPermitted,
		ends: reason == reasonRefNotPermitted || reason == reasonNotBound || reason == reasonNotPermitted}
}

// unread is a refusal because of what the object refers to. The last good version stays in force until that is there.
func unread(reason, format string, args ...any) *refusal {
	r := refuse(reason, format, args...)
	r.refs, r.waits = true, true
	return r
}

// Error returns the message.
func (r *refusal) Error() string { return r.message }
