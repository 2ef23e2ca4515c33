package gatewayapi

import (
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/modelgate/modelgate/api/config/crd"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/owned"
)

const (
	kindProvider = "Provider"
	kindModel    = "Model"
)

// modelHeaders stand for the model that the body of a request names. Other gateways to models write it there: the
// Gateway API Inference Extension, and Envoy AI Gateway. Here nobody reads such a header of a client.
var modelHeaders = [...]string{"x-gateway-model-name", "x-ai-eg-model"}

// A backend is what a rule leads to.
type backend struct {
	name   string // in the gateway
	stored configv1.Object
	weight uint32
}

// claimOf returns what only one object can have.
func claimOf(d owned.Declared) string {
	if r, ok := d.Object.(*configv1.Route); ok {
		return "the path " + strings.TrimSuffix(r.GetPathPrefix(), "/")
	}
	return "the model " + d.Name
}

// rules reads what a route declares.
func (p *Plan) rules(r *route, spec *level) {
	tenancy, err := p.world.Tenancy(r.object.GetNamespace())
	if err != nil {
		r.accept(trouble(reasonNotAllowed, "%v", err))
		return
	}
	for _, l := range spec.each("rules") {
		p.rule(r, tenancy, l)
	}
	if no := spec.unsupported(); no != nil {
		r.accept(no)
	}
}

// rule reads one of them. Its backends are of one kind: Providers get paths, Models the requests for a model.
func (p *Plan) rule(r *route, t Tenancy, l *level) {
	l.text("name", "")
	refs := l.each("backendRefs")
	if len(refs) == 0 {
		r.accept(trouble(reasonUnsupported, "%sbackendRefs: a rule needs a Provider or a Model", l.at))
		return
	}
	kind, backends := p.backends(r, l.at, refs)
	if r.refs != nil || r.accepted != nil {
		return
	}
	if len(backends) == 0 {
		r.accept(trouble(reasonUnsupported, "%sbackendRefs: all weights are 0", l.at))
		return
	}
	matches := l.each("matches")
	if len(matches) == 0 {
		matches = []*level{newLevel(l.at+"matches[0].", nil)}
	}
	if kind == kindProvider {
		toProvider(r, t, l, matches, backends)
	} else {
		toModels(r, t, l, matches, backends)
	}
	for _, part := range append(matches, l) {
		if no := part.unsupported(); no != nil {
			r.accept(no)
		}
	}
}

// backends returns what a rule leads to, without what has the weight 0.
func (p *Plan) backends(r *route, at string, refs []*level) (kind string, all []backend) {
	from := Ref{kindRoute, r.object.GetNamespace(), r.object.GetName()}
	for _, l := range refs {
		group := l.text("group", "")
		to := Ref{l.text("kind", "Service"), l.text("namespace", from.Namespace), l.text("name", "")}
		if group != crd.Group || to.Kind != kindProvider && to.Kind != kindModel {
			r.resolve(trouble("InvalidKind", "%skind: a backend is a Provider or a Model of %s, and not a %s", l.at, crd.Group,
				to.Kind))
			return "", nil
		}
		if kind != "" && kind != to.Kind {
			r.accept(trouble(reasonUnsupported, "%skind: the backends of a rule are of one kind", l.at))
		}
		kind = to.Kind
		if to.Namespace != from.Namespace {
			if err := p.world.May(from, to); err != nil {
				r.resolve(trouble(reasonRefNotPermitted, "%sname: %v", l.at, err))
				return "", nil
			}
		}
		b := backend{name: p.world.Named(to.Kind, to.Namespace, to.Name), weight: 1}
		if b.stored = p.world.Stored(to.Kind, b.name); b.stored == nil {
			r.resolve(trouble(reasonNotFound, "%sname: %s %s/%s is not there", l.at, to.Kind, to.Namespace, to.Name))
			return "", nil
		}
		if weight, ok := l.number("weight"); ok {
			b.weight = uint32(weight) //nolint:gosec // The definition has 0 to 1,000,000.
		}
		if no := l.unsupported(); no != nil {
			r.accept(no)
		}
		if b.weight > 0 {
			all = append(all, b)
		}
	}
	if kind == kindProvider && len(all) > 1 {
		r.accept(trouble(reasonUnsupported, "%sbackendRefs: a path leads to one Provider, not to %d", at, len(all)))
	}
	return kind, all
}

// toProvider declares a Route for each match.
func toProvider(r *route, t Tenancy, l *level, matches []*level, backends []backend) {
	to := rewrite(r, l)
	for _, m := range matches {
		path := m.within("path")
		value := path.text("value", "/")
		switch kind := path.text("type", "PathPrefix"); {
		case kind != "PathPrefix":
			r.accept(trouble(reasonUnsupported, "%stype: paths are matched by PathPrefix alone, not by %s", path.at, kind))
		case value == "/":
			r.accept(trouble(reasonUnsupported, "%svalue: a path is needed: / has the gateway's own paths", path.at))
		case !t.Platform && !within(value, r.object.GetNamespace()):
			r.accept(trouble(reasonUnsupported, "%svalue: paths of the namespace begin with /%s/", path.at,
				r.object.GetNamespace()))
			r.accepted.ends = true
		}
		name := label(r.object.GetNamespace(), r.object.GetName(), strconv.Itoa(len(r.declared)))
		r.declared = append(r.declared, declare("Route", &configv1.Route{Name: name, PathPrefix: value,
			Provider: backends[0].name, RewritePrefix: to}, r.owner))
	}
}

// within reports whether a path is a tenant's own. No two tenants have the same.
func within(path, namespace string) bool { return strings.HasPrefix(path+"/", "/"+namespace+"/") }

// rewrite returns what replaces the prefix of a rule's paths; nil if the rule does not say.
func rewrite(r *route, l *level) (to *string) {
	for _, f := range l.each("filters") {
		if kind := f.text("type", ""); kind != "URLRewrite" {
			r.accept(trouble(reasonUnsupported, "%stype: %s has no effect in this gateway", f.at, kind))
			return nil
		}
		url := f.within("urlRewrite")
		path := url.within("path")
		if kind := path.text("type", "ReplacePrefixMatch"); kind != "ReplacePrefixMatch" {
			r.accept(trouble(reasonUnsupported, "%stype: only ReplacePrefixMatch has an effect, not %s", path.at, kind))
		}
		to = new(path.text("replacePrefixMatch", "/"))
		for _, part := range []*level{path, url, f} {
			if no := part.unsupported(); no != nil {
				r.accept(no)
			}
		}
	}
	return to
}

// toModels declares a Model for each match: what a request for it is shared among.
func toModels(r *route, t Tenancy, l *level, matches []*level, backends []backend) {
	m, no := blend(l.at, t, backends)
	if no != nil {
		r.accept(no)
		return
	}
	if !t.Platform {
		m.Organization, m.Project = t.Organization, t.Project
	}
	for _, match := range matches {
		name, no := modelOf(match)
		if no != nil {
			r.accept(no)
			return
		}
		one := proto.CloneOf(m)
		one.Name = t.Prefix + name
		r.declared = append(r.declared, declare(kindModel, one, r.owner))
	}
}

// modelOf returns the model of the requests that a match is for.
func modelOf(m *level) (string, *problem) {
	path := m.within("path")
	kind, value := path.text("type", "PathPrefix"), path.text("value", "/")
	if kind != "PathPrefix" || value != "/" {
		return "", trouble(reasonUnsupported, "%svalue: a Model serves all paths that take a model; leave it out", path.at)
	}
	headers := m.each("headers")
	if len(headers) != 1 {
		return "", trouble(reasonUnsupported,
			"%sheaders: the body of a request names its model; match the header %s alone, which stands for that", m.at,
			modelHeaders[0])
	}
	h := headers[0]
	name, how, model := h.text("name", ""), h.text("type", "Exact"), h.text("value", "")
	switch {
	case !slices.Contains(modelHeaders[:], strings.ToLower(name)):
		return "", trouble(reasonUnsupported, "%sname: only %s can be matched, which stands for the model that the body names",
			h.at, modelHeaders[0])
	case how != "Exact":
		return "", trouble(reasonUnsupported, "%stype: the name of a model is matched by Exact alone, not by %s", h.at, how)
	}
	return model, h.unsupported()
}
