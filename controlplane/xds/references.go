package xds

import (
	"fmt"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// references reports objects that name others which do not exist.
func references(in Input) []ObjectError {
	providers := make(map[string]bool, len(in.Providers))
	for _, p := range in.Providers {
		providers[p.GetName()] = true
	}
	certificates := make(map[string]bool, len(in.Certificates))
	for _, c := range in.Certificates {
		certificates[c.GetName()] = true
	}
	var errs []ObjectError
	for _, g := range in.Gateways {
		if name := g.CertificateName(); !certificates[name] {
			errs = append(errs, ObjectError{Object: Object{KindGateway, g.GetName()}, Err: fmt.Errorf("certificate: %q does not exist", name)})
		}
	}
	for _, s := range in.JobServices {
		if t := s.GetTls(); t != nil && !certificates[t.GetCertificate()] {
			errs = append(errs, ObjectError{Object: Object{KindJobService, s.GetName()}, Err: fmt.Errorf("tls.certificate: %q does not exist", t.GetCertificate())})
		}
	}
	for _, r := range in.Routes {
		if name := r.GetProvider(); !providers[name] {
			errs = append(errs, ObjectError{Object: Object{KindRoute, r.GetName()}, Err: fmt.Errorf("provider: %q does not exist or has an error", name)})
		}
	}
	for _, m := range in.Models {
		if err := targets(m, providers); err != nil {
			errs = append(errs, ObjectError{Object: Object{KindModel, m.GetName()}, Err: err})
		}
	}
	return errs
}

func targets(m *configv1.Model, providers map[string]bool) error {
	for i, t := range m.GetTargets() {
		if !providers[t.GetProvider()] {
			return fmt.Errorf("targets[%d].provider: %q does not exist or has an error", i, t.GetProvider())
		}
	}
	return nil
}
