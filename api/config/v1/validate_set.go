package configv1

import (
	"net/netip"
	"strings"
)

// ValidateSet returns the errors between valid objects: references to missing objects, listeners with the same port,
// routes with the same path, and too many webhooks. A conflict is reported on the later object, and never resolved.
// The set must be complete.
func ValidateSet(objects []Object) Errors {
	var errs Errors
	errs = append(errs, validateReferences(objects)...)
	errs = append(errs, validateQuotas(objects)...)
	return append(errs, ValidateConflicts(objects)...)
}

// ValidateConflicts is the part of [ValidateSet] that does not need a complete set: conflicts between the objects.
func ValidateConflicts(objects []Object) Errors {
	var errs Errors
	seen := map[string]bool{}
	var claims []claim
	routes := map[string]*Route{}
	issuers := map[string]*CertificateIssuer{} // by gateway
	for _, o := range objects {
		if seen[Label(o)] {
			errs.add(Label(o), "", "is given twice")
			continue
		}
		seen[Label(o)] = true
		if r, ok := o.(*Route); ok {
			prefix := strings.TrimSuffix(r.GetPathPrefix(), "/")
			if earlier := routes[prefix]; earlier != nil {
				errs.add(Label(o), "path_prefix", "is the same as that of %s", Label(earlier))
			} else {
				routes[prefix] = r
			}
		}
		if c, ok := o.(*CertificateIssuer); ok && !c.GetDisabled() {
			if earlier := issuers[c.GatewayName()]; earlier != nil {
				errs.add(Label(o), "gateway", "is that of %s already", Label(earlier))
			} else {
				issuers[c.GatewayName()] = c
			}
		}
		for _, c := range claimsOf(o) {
			for _, earlier := range claims {
				if earlier.owner != o && earlier.overlaps(c) {
					errs.add(Label(o), c.field, "port %d is already taken by %s of %s", c.port, earlier.field, Label(earlier.owner))
				}
			}
			claims = append(claims, c)
		}
	}
	return errs
}

// A claim is an address and port that Envoy listens on for an object.
type claim struct {
	owner   Object
	field   string
	address string
	port    uint32
}

func claimsOf(o Object) []claim {
	var claims []claim
	switch o := o.(type) {
	case *Gateway:
		if o.GetPort() != 0 {
			claims = append(claims, claim{owner: o, field: "port", address: o.ListenAddress(), port: o.GetPort()})
		}
		if o.GetPlainHttpPort() != 0 {
			claims = append(claims, claim{owner: o, field: "plain_http_port", address: o.ListenAddress(),
				port: o.GetPlainHttpPort()})
		}
	case *JobService:
		if s, err := ParseSocket(o.GetListen(), true); err == nil && !s.Local() {
			claims = append(claims, claim{owner: o, field: "listen", address: s.Host, port: s.Port})
		}
	}
	return claims
}

// overlaps reports whether Envoy could not listen on both, or would share a port silently. A wildcard address overlaps
// all others, of IPv4 and IPv6, because it depends on the machine whether [::] includes IPv4.
func (c claim) overlaps(o claim) bool {
	if c.port != o.port {
		return false
	}
	a, errA := netip.ParseAddr(c.address)
	b, errB := netip.ParseAddr(o.address)
	if errA != nil || errB != nil {
		return c.address == o.address
	}
	return a.IsUnspecified() || b.IsUnspecified() || a.Unmap() == b.Unmap()
}

func validateReferences(objects []Object) Errors {
	var errs Errors
	exists := map[string]bool{}
	checkers := map[string]*Checker{}
	for _, o := range objects {
		exists[Label(o)] = true
		if c, ok := o.(*Checker); ok {
			checkers[c.GetName()] = c
		}
	}
	refer := func(from Object, field string, to Object) {
		if !exists[Label(to)] {
			errs = append(errs, FieldError{Object: Label(from), Field: field, Message: Label(to) + " does not exist",
				Unresolved: true})
		}
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *Model:
			for i, t := range o.GetTargets() {
				refer(o, element("targets", i)+".provider", &Provider{Name: t.GetProvider()})
			}
		case *Route:
			refer(o, "provider", &Provider{Name: o.GetProvider()})
			for i, g := range o.GetGateways() {
				refer(o, element("gateways", i), &Gateway{Name: g})
			}
		case *Gateway:
			refer(o, "certificate", &Certificate{Name: o.CertificateName()})
		case *AlertRule:
			for i, r := range o.GetReceivers() {
				refer(o, element("receivers", i), &AlertReceiver{Name: r})
			}
		case *AdminToken:
			if o.GetIdentityProvider() != "" {
				refer(o, "identity_provider", &IdentityProvider{Name: o.GetIdentityProvider()})
			}
		case *Guardrail:
			errs = append(errs, checkerRules(o, checkers, refer)...)
		case *JobService:
			if t := o.GetTls(); t != nil {
				refer(o, "tls.certificate", &Certificate{Name: t.GetCertificate()})
			}
		}
	}
	return errs
}
