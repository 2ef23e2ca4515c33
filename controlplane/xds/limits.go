package xds

import (
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
)

// maxAddresses bounds the buckets of addresses in an Envoy. An evicted address starts with a fresh bucket.
const maxAddresses = 100_000

// addressKey is Envoy's key of a descriptor for the client's address or network.
const addressKey = "masked_remote_address"

func addressLimitName(g *configv1.Gateway) string { return "gateway/" + g.GetName() + "/address_limit" }

// addressLimit returns the filter that answers addresses with too many requests before anything else reads them. A
// disabled filter is there too, so that enabling it does not change the listener.
func addressLimit(l *configv1.AddressLimit) *ratelimitv3.LocalRateLimit {
	percent := uint32(100)
	if l.GetDisabled() {
		percent = 0
	}
	on := &corev3.RuntimeFractionalPercent{DefaultValue: &typev3.FractionalPercent{Numerator: percent}}
	return &ratelimitv3.LocalRateLimit{
		StatPrefix:     "edge",
		FilterEnabled:  on,
		FilterEnforced: on,
		RateLimits: []*routev3.RateLimit{{Actions: []*routev3.RateLimit_Action{{
			ActionSpecifier: &routev3.RateLimit_Action_MaskedRemoteAddress_{
				MaskedRemoteAddress: &routev3.RateLimit_Action_MaskedRemoteAddress{
					V4PrefixMaskLen: wrapperspb.UInt32(32), V6PrefixMaskLen: wrapperspb.UInt32(64),
				}},
		}}}},
		Descriptors: []*commonv3.LocalRateLimitDescriptor{{
			Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: addressKey}}, // each value has its own bucket
			TokenBucket: &typev3.TokenBucket{
				MaxTokens: l.Bucket(), TokensPerFill: wrapperspb.UInt32(l.Rate()), FillInterval: seconds(1),
			},
		}},
		MaxDynamicDescriptors: wrapperspb.UInt32(maxAddresses),
	}
}

// rateLimit converts a RateLimit to Envoy's rate limit configuration, which the ext_proc service uses. Three features
// are not in Envoy's schema: concurrency is a domain without units, a value that ends in "*" matches all values with
// that prefix, counted together, and the expression of the requests that the limit is for is a descriptor above all
// others.
func rateLimit(l *configv1.RateLimit) ([]Resource, error) {
	config := &rlsv3.RateLimitConfig{Name: l.GetName(), Domain: l.GetDomain()}
	for i, d := range l.GetDescriptors() {
		converted, err := descriptor(d)
		if err != nil {
			return nil, fmt.Errorf("descriptors[%d]%w", i, err)
		}
		config.Descriptors = append(config.Descriptors, converted)
	}
	if len(config.GetDescriptors()) == 0 {
		return nil, errors.New("descriptors: there is none")
	}
	if _, err := l.Program(); err != nil {
		return nil, fmt.Errorf("when: %w", err)
	}
	if l.GetWhen() != "" {
		config.Descriptors = []*rlsv3.RateLimitDescriptor{{Key: configv1.WhenDescriptor, Value: l.GetWhen(),
			Descriptors: config.GetDescriptors()}}
	}
	return []Resource{{Role: envoy.RoleExtProc, Name: l.GetName(), Message: config}}, nil
}

// descriptor converts a descriptor. An error begins with its position.
func descriptor(d *configv1.RateLimitDescriptor) (*rlsv3.RateLimitDescriptor, error) {
	out := &rlsv3.RateLimitDescriptor{Key: d.GetKey(), Value: d.GetValue(), ShadowMode: d.GetShadowMode()}
	if p := d.GetRateLimit(); p != nil {
		n := uint32(p.GetRequestsPerUnit())
		switch {
		case n == 0 || uint64(n) != p.GetRequestsPerUnit():
			return nil, fmt.Errorf(".rate_limit.requests_per_unit: %d is not between 1 and 4294967295", p.GetRequestsPerUnit())
		case p.GetUnit() > configv1.Unit_DAY:
			return nil, fmt.Errorf(".rate_limit.unit: there is no limit for a %s", p.GetUnit())
		}
		out.RateLimit = &rlsv3.RateLimitPolicy{Unit: rlsv3.RateLimitUnit(p.GetUnit()), RequestsPerUnit: n} // same numbers
	} else if len(d.GetDescriptors()) == 0 {
		return nil, errors.New(": limits nothing")
	}
	for i, below := range d.GetDescriptors() {
		converted, err := descriptor(below)
		if err != nil {
			return nil, fmt.Errorf(".descriptors[%d]%w", i, err)
		}
		out.Descriptors = append(out.Descriptors, converted)
	}
	return out, nil
}

// organization and project are sent to the ext_proc service unchanged.
func organization(o *configv1.Organization) ([]Resource, error) {
	return []Resource{{Role: envoy.RoleExtProc, Name: o.GetName(), Message: o}}, nil
}

func project(p *configv1.Project) ([]Resource, error) {
	return []Resource{{Role: envoy.RoleExtProc, Name: p.GetName(), Message: p}}, nil
}
