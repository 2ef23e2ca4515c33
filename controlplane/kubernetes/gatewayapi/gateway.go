package gatewayapi

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
)

// A gateway is a Gateway of one of our classes.
type gateway struct {
	object    *unstructured.Unstructured
	owner     configstore.Owner
	problem   *problem
	listeners []*listener
}

// A listener is one of a Gateway. It becomes a Gateway of ours, with its Certificate.
type listener struct {
	gateway                  *gateway
	name, protocol, hostname string
	port                     uint32 // of clients
	accepted, refs, kinds    *problem
	conflicted               bool
	routes                   bool // may be HTTPRoutes
	namespaces               labels.Selector
	same                     bool // only routes of its own namespace
	attached                 int64
	ref                      configstore.Ref
	certificate              *configv1.Certificate
	target                   uint32 // port of the data plane
	declared                 bool
}

func (p *Plan) gateway(o *unstructured.Unstructured, spec *level, c *class) *gateway {
	g := &gateway{object: o, owner: ownerOf(kindGateway, o)}
	for _, l := range spec.each("listeners") {
		g.listeners = append(g.listeners, p.listener(g, l))
	}
	switch at := spec.unread(); {
	case o.GetNamespace() != p.world.Platform:
		g.problem = trouble(reasonInvalid, "only the platform opens listeners: a Gateway is made in the namespace %s",
			p.world.Platform)
		g.problem.ends = true
	case c.problem != nil:
		g.problem = trouble(reasonInvalid, "its GatewayClass is not accepted: %s", c.problem.message)
	case at == "spec.addresses":
		g.problem = trouble("UnsupportedAddress", "spec.addresses: the addresses are those of the Service of the data plane")
	case at != "":
		g.problem = trouble(reasonInvalid, "%s has no effect in this gateway", at)
	}
	if g.problem != nil {
		p.kept[g.owner.By] = !g.problem.ends
		return g
	}
	g.conflicts()
	for _, l := range g.listeners {
		p.open(l)
	}
	return g
}

// conflicts finds listeners with one port and several protocols.
func (g *gateway) conflicts() {
	for _, a := range g.listeners {
		for _, b := range g.listeners {
			if a.port == b.port && a.protocol != b.protocol {
				a.conflicted = true
			}
		}
	}
}

// open declares a listener, or keeps what it was if it is wrong now.
func (p *Plan) open(l *listener) {
	other := p.ports[l.target]
	if l.accepted == nil && !l.conflicted && other != nil {
		l.accepted = trouble(reasonPort, "port %d is that of listener %s of Gateway %s", l.port, other.name,
			other.gateway.object.GetName())
	}
	certificate := configstore.Ref{Kind: "Certificate", Name: l.ref.Name}
	if l.accepted != nil || l.conflicted || l.refs != nil {
		if l.refs == nil || !l.refs.ends {
			p.keptRefs[l.ref], p.keptRefs[certificate] = true, true
		}
		return
	}
	p.ports[l.target], l.declared = l, true
	g := &configv1.Gateway{Name: l.ref.Name, Port: l.target, Certificate: l.ref.Name}
	if p.overIPv6() {
		g.Address = "::"
	}
	if l.hostname != "" {
		g.Hostnames = []string{l.hostname}
	}
	p.declared = append(p.declared, declare("Certificate", l.certificate, l.gateway.owner),
		declare(kindGateway, g, l.gateway.owner))
}

func (p *Plan) listener(g *gateway, l *level) *listener {
	x := &listener{gateway: g, name: l.text("name", ""), protocol: l.text("protocol", "")}
	port, _ := l.number("port")
	x.port = uint32(port) //nolint:gosec // The definition has 1 to 65535.
	x.ref = configstore.Ref{Kind: kindGateway, Name: label(g.object.GetName(), x.name)}
	x.accepted = p.accepts(x, l)
	x.kinds = x.allowed(l.within("allowedRoutes"))
	return x
}

// accepts returns why a listener cannot be, and completes one that can.
func (p *Plan) accepts(x *listener, l *level) *problem {
	secure := l.within("tls")
	x.hostname = l.text("hostname", "")
	l.take("allowedRoutes")
	switch mode := secure.text("mode", "Terminate"); {
	case x.protocol != "HTTPS":
		return trouble("UnsupportedProtocol", "%sprotocol: the gateway takes requests by HTTPS alone, not by %s", l.at,
			x.protocol)
	case mode != "Terminate":
		return trouble(reasonUnsupported, "%smode: the gateway reads requests, so that TLS cannot pass through it", secure.at)
	}
	refs := secure.each("certificateRefs")
	if len(refs) != 1 {
		return trouble(reasonUnsupported, "%scertificateRefs: a listener has one certificate, not %d", secure.at, len(refs))
	}
	var text [2]string
	if text, x.refs = p.pair(x.gateway.object, refs[0]); x.refs == nil {
		x.certificate = &configv1.Certificate{Name: x.ref.Name, Chain: text[0],
			PrivateKey: &configv1.Credential{Source: &configv1.Credential_Value{Value: text[1]}}}
	}
	for _, part := range []*level{refs[0], secure, l} {
		if no := part.unsupported(); no != nil {
			return no
		}
	}
	var no *problem
	x.target, no = p.targetOf(x.port)
	return no
}

// pair returns the certificate and the key of a Secret.
func (p *Plan) pair(o *unstructured.Unstructured, ref *level) (text [2]string, _ *problem) {
	from := Ref{kindGateway, o.GetNamespace(), o.GetName()}
	to := Ref{ref.text("kind", kindSecret), ref.text("namespace", o.GetNamespace()), ref.text("name", "")}
	if group := ref.text("group", ""); group != "" || to.Kind != kindSecret {
		return text, trouble(reasonCertificate, "%skind: a certificate is in a Secret, not in a %s", ref.at, to.Kind)
	}
	if to.Namespace != from.Namespace {
		if err := p.world.May(from, to); err != nil {
			return text, trouble(reasonRefNotPermitted, "%sname: %v", ref.at, err)
		}
	}
	s, err := p.world.Secret(to.Namespace, to.Name)
	switch {
	case err != nil:
		return text, trouble(reasonCertificate, "%sname: %v", ref.at, err)
	case s == nil:
		return text, trouble(reasonCertificate, "%sname: Secret %s/%s is not there", ref.at, to.Namespace, to.Name)
	}
	for i, member := range []string{"tls.crt", "tls.key"} {
		coded, _, _ := unstructured.NestedString(s.Object, "data", member)
		plain, err := base64.StdEncoding.DecodeString(coded)
		if err != nil || len(plain) == 0 {
			return text, trouble(reasonCertificate, "%sname: Secret %s/%s has no %s", ref.at, to.Namespace, to.Name, member)
		}
		text[i] = strings.TrimRight(string(plain), "\r\n")
	}
	if _, err := tls.X509KeyPair([]byte(text[0]), []byte(text[1])); err != nil {
		return text, trouble(reasonCertificate, "%sname: Secret %s/%s: %v", ref.at, to.Namespace, to.Name, err)
	}
	return text, nil
}

// allowed reads which routes may attach, and returns the problem of kinds that never can.
func (x *listener) allowed(l *level) (no *problem) {
	kinds := l.each("kinds")
	x.routes = len(kinds) == 0
	for _, k := range kinds {
		if k.text("group", Group) == Group && k.text("kind", "") == kindRoute {
			x.routes = true
		} else {
			no = trouble("InvalidRouteKinds", "%skind: the gateway knows only HTTPRoutes", k.at)
		}
	}
	x.namespaces = labels.Nothing()
	switch from := l.within("namespaces"); from.text("from", "Same") {
	case "All":
		x.namespaces = labels.Everything()
	case "Selector":
		s := &metav1.LabelSelector{}
		tree, _ := from.take("selector").(map[string]any)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, s); err == nil {
			if selector, err := metav1.LabelSelectorAsSelector(s); err == nil {
				x.namespaces = selector
			}
		}
	default:
		x.same = true
	}
	return no
}

// allows reports whether routes of a namespace may attach.
func (p *Plan) allows(x *listener, namespace string) bool {
	return x.routes && (x.same && namespace == x.gateway.object.GetNamespace() ||
		x.namespaces.Matches(labels.Set(p.world.Labels(namespace))))
}

// label returns a name in the gateway: the parts, or a name that only they have, if these are no such name or could be
// the parts of another one.
func label(parts ...string) string {
	joined := strings.Join(parts, "--")
	plain := strings.ReplaceAll(joined, ".", "-")
	if len(joined) <= 63 && plain == joined && strings.Count(joined, "--") == len(parts)-1 {
		return joined
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "/")))
	return fmt.Sprintf("%s-%s", strings.TrimRight(plain[:min(len(plain), 50)], "-"), hex.EncodeToString(sum[:6]))
}
