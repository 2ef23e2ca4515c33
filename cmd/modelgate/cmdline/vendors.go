package cmdline

import (
	"maps"
	"slices"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/all"
)

// KnownVendor finds a vendor for the validation of providers.
func KnownVendor(name string) (configv1.Vendor, bool) {
	all := Vendors()
	v, ok := all[name]
	if !ok {
		return configv1.Vendor{Known: slices.Sorted(maps.Keys(all))}, false
	}
	return configv1.Vendor{Exchanges: v.Exchange != nil, Operations: v.Operations(),
		Endpoint: func(p *configv1.Provider) error {
			_, err := v.Endpoint(p)
			return err
		}}, true
}

// Vendors are the providers that are built in, by name.
func Vendors() map[string]provider.Provider { return all.Providers() }
