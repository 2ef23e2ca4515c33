package metering

import (
	"cmp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/internal/reported"
	"github.com/modelgate/modelgate/internal/usage"
)

// Surcharges are the parts of a request that change its price: a service tier, and tools that the vendor runs and
// bills by the call.
type Surcharges struct {
	Tier      string
	TierParam string // the member that requests it
	BySpeed   bool   // that member buys speed or a place, and is not the service tier of the vendor
	Tools     []Surcharge
	Calls     int64 // of each tool, at most, if the request has a limit
}

// A Surcharge is a tool, with the catalog's name, and the member that requests it.
type Surcharge struct{ Tool, Param string }

// RequestedTier returns the requested service tier, or "".
func (s *Surcharges) RequestedTier() string {
	if s == nil {
		return ""
	}
	return s.Tier
}

// tier returns the service tier whose price holds, from what the answer says. An answer that names its speed is priced
// by it. One that only names the vendor's tier does not say that a speed was refused.
func (s *Surcharges) tier(given, speed string) string {
	asked := s.RequestedTier()
	switch {
	case !reported.IsUsual(speed):
		return speed
	case s != nil && s.BySpeed && reported.IsUsual(given) && (speed == "" || !strings.HasSuffix(s.TierParam, "speed")):
		return asked // nothing says that it was refused
	case speed != "" && given == "":
		return speed
	}
	return cmp.Or(given, asked)
}

// Cost returns the cost of the tools with a price.
func (s *Surcharges) Cost(rates *usage.Rates) (all usage.Nano) {
	if s == nil {
		return 0
	}
	for _, of := range s.Tools {
		cost, _ := rates.Calls(of.Tool, s.Calls)
		all = all.Plus(cost)
	}
	return all
}

// SearchUnit is the tool that prices the search units of a rerank, as Cohere bills them: a query with up to perUnit
// documents is one. Vendors that bill tokens have no price for it.
const SearchUnit = "search_unit"

// ComputeUnit is the tool that prices the compute units that a vendor reports beside tokens.
const ComputeUnit = "compute_unit"

const perUnit = 100

// rankingOf returns the surcharges of a rerank.
func rankingOf(documents gjson.Result) *Surcharges {
	n := documents.Get("#").Int()
	return &Surcharges{Tools: []Surcharge{{SearchUnit, "documents"}}, Calls: max(1, (n+perUnit-1)/perUnit)}
}

// surchargesOf returns the surcharges of what a request has the vendor do, of which each tool is called so often at
// most. It returns nil if there are none.
func surchargesOf(offers *offered.List, calls int64) *Surcharges {
	if offers == nil || offers.Tier == "" && len(offers.Fees) == 0 {
		return nil
	}
	s := &Surcharges{Tier: offers.Tier, TierParam: offers.TierMember, BySpeed: offers.BySpeed, Calls: max(1, calls)}
	for _, f := range offers.Fees {
		s.Tools = append(s.Tools, Surcharge{f.Tool, f.Member})
	}
	return s
}
