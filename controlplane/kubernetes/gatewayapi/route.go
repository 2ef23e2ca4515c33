package gatewayapi

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/owned"
	"github.com/modelgate/modelgate/internal/configstore"
)

// A route is an HTTPRoute with a parent of ours.
type route struct {
	object         *unstructured.Unstructured
	owner          configstore.Owner
	parents        []*parent
	accepted, refs *problem
	declared       []owned.Declared
}

// A parent is a Gateway of ours that a route names.
type parent struct {
	ref     map[string]any // as the route has it
	problem *problem
}

// route returns what an HTTPRoute declares, or nil for one of other controllers. The listeners that it attaches to
// answer for its paths. Models are those of the whole gateway, so that all listeners have to allow a route with one.
func (p *Plan) route(o *unstructured.Unstructured) *route {
	r := &route{object: o, owner: ownerOf(kindRoute, o)}
	spec := specOf(o)
	hosts := spec.texts("hostnames")
	var attached []*listener
	for _, ref := range spec.each("parentRefs") {
		if one, to := p.parent(o, ref, hosts); one != nil {
			r.parents = append(r.parents, one)
			for _, x := range to {
				if !slices.Contains(attached, x) {
					attached = append(attached, x)
				}
			}
		}
	}
	if len(r.parents) == 0 {
		return nil
	}
	p.rules(r, spec)
	for _, x := range attached {
		if len(hosts) > 0 && !slices.ContainsFunc(hosts, func(h string) bool { return covers(h, x.hostname) }) {
			r.accept(trouble(reasonUnsupported,
				"spec.hostnames: they are narrower than the hostname %q of listener %s, which answers for the route", x.hostname,
				x.name))
		}
	}
	if no := p.everywhere(o.GetNamespace(), attached); no != nil && r.attaches() && r.models() {
		r.accepted = no // which weighs more than what the route says
	}
	p.claim(r)
	if !r.good() {
		// A tenant could break a route to keep what it was given before, and is not any more.
		mistaken := r.accepted != nil || r.refs != nil
		p.kept[r.owner.By] = !r.ends() && (!mistaken || o.GetNamespace() == p.world.Platform)
		return r
	}
	var open []string
	for _, l := range attached {
		l.attached++
		if l.declared || p.keptRefs[l.ref] && p.world.Stored(kindGateway, l.ref.Name) != nil {
			open = append(open, l.ref.Name)
		}
	}
	if len(open) == 0 { // until one of them is
		p.kept[r.owner.By], r.declared = true, nil
	}
	for _, d := range r.declared {
		if path, ok := d.Object.(*configv1.Route); ok {
			path.Gateways = open
		}
	}
	p.declared = append(p.declared, r.declared...)
	return r
}

// models reports whether the route declares a Model.
func (r *route) models() bool {
	return slices.ContainsFunc(r.declared, func(d owned.Declared) bool { return d.Kind.Name == kindModel })
}

// attaches reports whether a parent takes the route.
func (r *route) attaches() bool {
	return slices.ContainsFunc(r.parents, func(p *parent) bool { return p.problem == nil })
}

func (r *route) good() bool { return r.accepted == nil && r.refs == nil && r.attaches() }

// ends reports whether nothing of the route may stay in force.
func (r *route) ends() bool {
	all := []*problem{r.accepted, r.refs}
	if !r.attaches() {
		for _, p := range r.parents {
			all = append(all, p.problem)
		}
	}
	return slices.ContainsFunc(all, func(p *problem) bool { return p != nil && p.ends })
}

// accept notes why the route is not accepted. The first reason counts.
func (r *route) accept(no *problem) {
	if r.accepted == nil {
		r.accepted = no
	}
}

// resolve notes which reference is wrong.
func (r *route) resolve(no *problem) {
	if r.refs == nil {
		r.refs = no
	}
}

// parent returns a parent that is ours, and the listeners that the route attaches to by it.
func (p *Plan) parent(o *unstructured.Unstructured, l *level, hosts []string) (*parent, []*listener) {
	namespace, name := l.text("namespace", o.GetNamespace()), l.text("name", "")
	if l.text("group", Group) != Group || l.text("kind", kindGateway) != kindGateway {
		return nil, nil
	}
	i := slices.IndexFunc(p.gateways, func(g *gateway) bool {
		return g.object.GetNamespace() == namespace && g.object.GetName() == name
	})
	if i < 0 {
		return nil, nil
	}
	one, g := &parent{ref: l.tree}, p.gateways[i]
	section := l.text("sectionName", "")
	port, _ := l.number("port")
	var named, live, allowed, meant []*listener
	for _, x := range g.listeners {
		if section != "" && section != x.name || port != 0 && port != int64(x.port) {
			continue
		}
		named = append(named, x)
		if !x.live() {
			continue
		}
		live = append(live, x)
		if !p.allows(x, o.GetNamespace()) {
			continue
		}
		allowed = append(allowed, x)
		if len(hosts) == 0 || slices.ContainsFunc(hosts, x.meets) {
			meant = append(meant, x)
		}
	}
	switch {
	case g.problem != nil && g.problem.ends:
		one.problem = trouble(reasonNoParent, "%sname: Gateway %s/%s is not accepted", l.at, namespace, name)
	case g.problem != nil:
		one.problem = trouble(reasonPending, "%sname: Gateway %s/%s is not accepted", l.at, namespace, name)
	case len(named) == 0:
		one.problem = trouble(reasonNoParent, "%sname: Gateway %s/%s has no such listener", l.at, namespace, name)
	case len(live) == 0:
		one.problem = trouble(reasonPending, "%sname: no listener of Gateway %s/%s is accepted", l.at, namespace, name)
	case len(allowed) == 0:
		one.problem = trouble(reasonNotAllowed, "%sname: Gateway %s/%s does not allow routes of the namespace %s", l.at,
			namespace, name, o.GetNamespace())
	case len(meant) == 0:
		one.problem = trouble(reasonNoHost, "spec.hostnames: no listener of Gateway %s/%s answers for them", namespace, name)
	default:
		if at := l.unread(); at != "" {
			one.problem = trouble(reasonUnsupported, "%s has no effect in this gateway", at)
		}
	}
	if one.problem != nil {
		return one, nil
	}
	return one, meant
}

// meets reports whether a listener has names of a hostname.
func (x *listener) meets(h string) bool { return covers(h, x.hostname) || covers(x.hostname, h) }

// covers reports whether a hostname has all names that another one has. "" has all that there are.
func covers(h, of string) bool {
	end, wild := strings.CutPrefix(h, "*")
	return h == "" || h == of || wild && strings.HasSuffix(of, end)
}

// live reports whether clients may come by a listener.
func (x *listener) live() bool { return x.accepted == nil && !x.conflicted && x.gateway.problem == nil }

// everywhere returns a listener that the route is not attached to, as a problem.
func (p *Plan) everywhere(namespace string, attached []*listener) *problem {
	for _, g := range p.gateways {
		for _, x := range g.listeners {
			if !x.live() || slices.Contains(attached, x) {
				continue
			}
			reason, why := reasonUnsupported, "it is not attached to"
			if !p.allows(x, namespace) {
				reason, why = reasonNotAllowed, "it is not allowed by"
			}
			no := trouble(reason, "spec.parentRefs: all listeners of the gateway answer for a model, and %s listener %s of Gateway %s/%s",
				why, x.name, g.object.GetNamespace(), g.object.GetName())
			no.ends = true
			return no
		}
	}
	return nil
}

// claim takes the paths and models of a route, unless an older one has them.
func (p *Plan) claim(r *route) {
	if !r.good() {
		return
	}
	claims := map[string]bool{}
	for _, d := range r.declared {
		c := claimOf(d)
		other := p.paths[c]
		if claims[c] {
			other = r
		}
		if other != nil {
			r.accept(trouble("Conflict", "spec.rules: %s is that of HTTPRoute %s/%s already", c,
				other.object.GetNamespace(), other.object.GetName()))
			r.accepted.ends = other != r
			return
		}
		claims[c] = true
	}
	for c := range claims {
		p.paths[c] = r
	}
}
