package xds

import (
	"fmt"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// references reports references to missing objects.
func references(in Input) []ObjectError {
	providers := make(map[string]bool, len(in.Providers))
	for _, p := range in.Providers {
		providers[p.GetName()] = !p.GetWaiting()
	}
	certificates := make(map[string]bool, len(in.Certificates))
	for _, c := range in.Certificates {
		certificates[c.GetName()] = true
	}
	var errs []ObjectError
	for _, g := range in.Gateways {
		if name := g.CertificateName(); !certificates[name] {
			errs = append(errs, ObjectError{Object: Object{KindGateway, g.GetName()},
				Err: fmt.Errorf("certificate: %q does not exist", name)})
		}
	}
	for _, s := range in.JobServices {
		if t := s.GetTls(); t != nil && !certificates[t.GetCertificate()] {
			errs = append(errs, ObjectError{Object: Object{KindJobService, s.GetName()},
				Err: fmt.Errorf("tls.certificate: %q does not exist", t.GetCertificate())})
		}
	}
	for _, r := range in.Routes {
		if name := r.GetProvider(); !providers[name] {
			errs = append(errs, ObjectError{Object: Object{KindRoute, r.GetName()},
				Err: fmt.Errorf("provider: %q does not exist or has an error", name)})
		}
	}
	gateways := make(map[string]bool, len(in.Gateways))
	for _, g := range in.Gateways {
		gateways[g.GetName()] = true
	}
	for _, c := range in.CertificateIssuers {
		if name := c.GatewayName(); !gateways[name] {
			errs = append(errs, ObjectError{Object: Object{KindIssuer, c.GetName()},
				Err: fmt.Errorf("gateway: %q does not exist, so nobody is asked for a certificate", name)})
		}
	}
	k := known{in, map[string]map[string]bool{}}
	for _, l := range in.RateLimits {
		if err := effects(l.GetDescriptors(), "descriptors", k); err != nil {
			errs = append(errs, ObjectError{Object: Object{KindRateLimit, l.GetName()}, Err: err})
		}
	}
	for _, m := range in.Models {
		if err := targets(m, providers); err != nil {
			errs = append(errs, ObjectError{Object: Object{KindModel, m.GetName()}, Err: err})
		}
	}
	return errs
}

// targets reports a model without an available target. A model with another target works: the error is the provider's.
func targets(m *configv1.Model, providers map[string]bool) error {
	for _, t := range m.GetTargets() {
		if providers[t.GetProvider()] {
			return nil
		}
	}
	if len(m.GetTargets()) == 0 {
		return nil
	}
	return fmt.Errorf("targets[0].provider: %q does not exist or has an error, and no other target works",
		m.GetTargets()[0].GetProvider())
}

// effects reports a descriptor that cannot match: pitfall 94. It is served nevertheless, because the named object may
// be created later.
func effects(list []*configv1.RateLimitDescriptor, field string, k known) error {
	for i, d := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		if d.GetValue() != "" && !k.has(d.GetKey(), d.GetValue()) {
			return fmt.Errorf("%s.value: there is no %s %q, so this limits nothing", at, d.GetKey(), d.GetValue())
		}
		if err := effects(d.GetDescriptors(), at+".descriptors", k); err != nil {
			return err
		}
	}
	return nil
}

// known has the values that requests can have. Its sets are made on demand, as there may be very many keys.
type known struct {
	in   Input
	sets map[string]map[string]bool // by key of a descriptor
}

// has reports whether a request can have an entry with a value. For models and users it cannot tell, and returns true.
func (k known) has(key, value string) bool {
	if key == "model" || key == "user" {
		return true
	}
	if k.sets[key] == nil {
		k.sets[key] = k.names(key)
	}
	if k.sets[key][value] {
		return true
	}
	for name := range k.sets[key] {
		if configv1.Matches(value, name) {
			return true
		}
	}
	return false
}

// names returns the values that entries of a key can have. An organization or a project needs no object if a key names
// it.
func (k known) names(key string) map[string]bool {
	set := map[string]bool{}
	switch key {
	case "key":
		for _, x := range k.in.Keys {
			set[x.GetName()] = true
		}
	case "organization":
		for _, x := range k.in.Organizations {
			set[x.GetName()] = true
		}
		for _, x := range k.in.Keys {
			set[x.GetOrganization()] = true
		}
	case "project":
		for _, x := range k.in.Projects {
			set[x.GetName()] = true
		}
		for _, x := range k.in.Keys {
			set[x.GetOrganization()+"/"+x.GetProject()] = true
		}
	case "provider":
		for _, x := range k.in.Providers {
			set[x.GetName()] = true
		}
	}
	return set
}
