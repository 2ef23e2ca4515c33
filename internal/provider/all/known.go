package all

import (
	"maps"
	"slices"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Known finds a vendor for the validation of providers.
func Known(name string) (configv1.Vendor, bool) {
	all := Providers()
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
