package gatewayapi

import (
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// mostWeight is the largest weight of a target.
const mostWeight = 1_000_000

// blend returns a Model whose requests are shared among several: each has its share of the first attempts. The targets
// that a Model tries second are tried after the first ones of all.
func blend(at string, t Tenancy, backends []backend) (*configv1.Model, *problem) {
	first, _ := backends[0].stored.(*configv1.Model)
	m := &configv1.Model{Retry: first.GetRetry(), Timeouts: first.GetTimeouts(), OwnedBy: first.GetOwnedBy(),
		Organization: first.GetOrganization(), Project: first.GetProject()}
	if len(backends) == 1 {
		m.Targets = first.GetTargets()
		return proto.CloneOf(m), nil
	}
	var shares []float64
	for _, b := range backends {
		of, _ := b.stored.(*configv1.Model)
		for field, same := range map[string]bool{
			"retry":        proto.Equal(of.GetRetry(), m.GetRetry()),
			"timeouts":     proto.Equal(of.GetTimeouts(), m.GetTimeouts()),
			"organization": !t.Platform || of.GetOrganization() == m.GetOrganization() && of.GetProject() == m.GetProject(),
		} {
			if !same {
				return nil, trouble(reasonUnsupported, "%sbackendRefs: %s and %s have another %s", at, backends[0].name, b.name,
					field)
			}
		}
		targets, parts := ranked(of.GetTargets())
		m.Targets = append(m.Targets, targets...)
		for _, part := range parts {
			shares = append(shares, part*float64(b.weight))
		}
	}
	weigh(m.GetTargets(), shares)
	return m, nil
}

// ranked returns targets whose priorities are numbered from 0, and the share of each among those of its own priority.
func ranked(all []*configv1.Target) (targets []*configv1.Target, shares []float64) {
	sums := map[uint32]float64{}
	for _, t := range all {
		sums[t.GetPriority()] += float64(max(1, t.GetWeight()))
	}
	ranks := slices.Sorted(maps.Keys(sums))
	for _, t := range all {
		targets = append(targets, &configv1.Target{Provider: t.GetProvider(), Model: t.GetModel(),
			Priority: uint32(slices.Index(ranks, t.GetPriority()))}) //nolint:gosec // There are at most 128.
		shares = append(shares, float64(max(1, t.GetWeight()))/sums[t.GetPriority()])
	}
	return targets, shares
}

// weigh gives targets the weights that are nearest to their shares, in the smallest numbers that have them exactly, or
// the largest that there are.
func weigh(targets []*configv1.Target, shares []float64) {
	least, most := slices.Min(shares), slices.Max(shares)
	factor := mostWeight / most
	for n := 1.0; n <= 1000 && n*most/least <= mostWeight; n++ {
		if !slices.ContainsFunc(shares, func(s float64) bool {
			w := s * n / least
			return math.Abs(w-math.Round(w)) > 1e-9*w
		}) {
			factor = n / least
			break
		}
	}
	for i, t := range targets {
		t.Weight = uint32(min(mostWeight, max(1, math.Round(shares[i]*factor))))
	}
}
