package usage

import (
	"cmp"
	"math"
	"math/bits"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/reported"
)

// Rates are a price in computable form. A price with an invalid decimal has no Rates: validation refuses it before it
// is stored. Rates are immutable. Nil means no price.
type Rates struct {
	tiers []tier // ascending; the first one begins at 0 tokens
	image uint64 // pico-dollars
	batch uint64 // millionths

	factor   uint64 // for the whole cost, in millionths
	services map[string]*Rates
	calls    map[string]uint64 // by tool, in pico-dollars per call
}

// A tier has the prices of a token by kind, in pico-dollars.
type tier struct {
	above                       int64
	rates                       [All]uint64
	dearestInput, dearestOutput uint64 // of text
}

const (
	million = 1_000_000
	// maxRate is validation's bound on a price, so that nothing overflows: 10,000 dollars, in millionths.
	maxRate      = 10_000 * million
	defaultBatch = million / 2
)

// Compile parses the decimals of a price, which may be nil. It returns nil if there is no price, or if a decimal is
// invalid.
func Compile(p *configv1.Price) *Rates {
	d := decimals{}
	r := &Rates{image: d.read(p.GetImage(), 0) * million}
	d.read(p.GetInput(), 0)
	d.read(p.GetOutput(), 0)
	if !d.any || d.bad {
		return nil
	}
	r.batch = d.read(p.GetBatchFactor(), defaultBatch)
	r.tiers = append(make([]tier, 0, 1+len(p.GetTiers())), d.tier(p, p, nil))
	for _, t := range p.GetTiers() {
		next := d.tier(p, t, &r.tiers[0])
		next.above = t.GetAbovePromptTokens()
		r.tiers = append(r.tiers, next)
	}
	r.factor = million
	r.extras(&d, p)
	if d.bad {
		return nil
	}
	return r
}

// extras adds the prices of service tiers and tools.
func (r *Rates) extras(d *decimals, p *configv1.Price) {
	for _, s := range p.GetServiceTiers() {
		in := r
		if own, differs := replaced(p, s); differs {
			if in = Compile(own); in == nil {
				d.bad = true
				return
			}
		}
		tier := *in
		tier.factor = d.read(s.GetFactor(), million)
		if r.services == nil {
			r.services = map[string]*Rates{}
		}
		r.services[s.GetName()] = &tier
	}
	for _, t := range p.GetTools() {
		if r.calls == nil {
			r.calls = map[string]uint64{}
		}
		r.calls[t.GetName()] = d.read(t.GetCall(), 0) * million
	}
}

// In returns the price of a service tier, and whether it has one. Vendors' names for the default tier return the price
// itself.
func (r *Rates) In(tier string) (*Rates, bool) {
	if r == nil {
		return nil, true
	}
	if reported.IsUsual(tier) {
		return r, true
	}
	if in := r.services[tier]; in != nil {
		return in, true
	}
	return r, false
}

// Calls returns the cost of n calls of a tool that the vendor runs, and whether it has a price.
func (r *Rates) Calls(tool string, n int64) (Nano, bool) {
	price, ok := r.calls[tool]
	var s sum
	s.add(n, openai.MaxTokens, price)
	return s.nano(million), ok
}

// decimals parses the decimals of one price.
type decimals struct{ any, bad bool }

func (d *decimals) read(text string, empty uint64) uint64 {
	if text == "" {
		return empty
	}
	n, ok := parseDecimal(text, 6)
	d.any, d.bad = true, d.bad || !ok || n > maxRate
	return n
}

// tier parses the prices of a tier. What it does not name costs what it costs in the base tier, unless the tier names
// what that is a part of. The base tier has the members of the price itself.
func (d *decimals) tier(p *configv1.Price, in proto.Message, base *tier) (t tier) {
	var named [All]bool // or what it is a part of is
	for k := range All {
		f := &Fields[k]
		if f.Price == "" {
			continue
		}
		text, has := decimalOf(in, f.Price)
		if !has {
			text, _ = decimalOf(p, f.Price)
		}
		named[k] = text != "" || named[f.Of]
		empty := t.rates[f.Of]
		if whole, _ := decimalOf(in, Fields[f.Of].Price); f.Double && whole != "" {
			empty = max(empty, 2*t.rates[Fields[f.Of].Of])
		}
		if base != nil && has && !named[f.Of] {
			empty = base.rates[k]
		}
		t.rates[k] = d.read(text, empty)
		if f.Text {
			dearest := &t.dearestInput
			if f.Of == OutputTokens {
				dearest = &t.dearestOutput
			}
			*dearest = max(*dearest, t.rates[k])
		}
	}
	return t
}

// decimalOf returns a member of a message that has a price, and whether the message has such a member.
func decimalOf(m proto.Message, name string) (text string, has bool) {
	f := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name))
	if f == nil {
		return "", false
	}
	return m.ProtoReflect().Get(f).String(), true
}

// replaced returns a price without tiers and tools, with what a service tier has in place of it, and whether there is
// anything.
func replaced(p *configv1.Price, by *configv1.ServiceTierPrice) (own *configv1.Price, differs bool) {
	own = proto.CloneOf(p)
	own.Tiers, own.ServiceTiers, own.Tools = nil, nil, nil
	to := own.ProtoReflect()
	by.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if same := to.Descriptor().Fields().ByName(f.Name()); same != nil {
			to.Set(same, v)
			differs = true
		}
		return true
	})
	return own, differs
}

// Cost returns the cost of a usage, and whether there is a price. Every token is paid once, even if the provider
// counts it in two kinds: then it costs what the first one in the order of [billed] does.
func (r *Rates) Cost(u Used) (cost Nano, priced bool) {
	if r == nil {
		return 0, false
	}
	var s sum
	r.addTo(&s, &u)
	return s.nano(r.factorOf(u)), true
}

// CostByModel is Cost, but parts of other models cost what these cost, if of returns their price.
func (r *Rates) CostByModel(u Used, of func(model string) *Rates) (cost Nano, priced bool) {
	own, others, longest, split := u, Nano(0), int64(0), false
	for m := u.ByModel; m != nil && r != nil; m = m.Next {
		var rates *Rates
		if m.Model != "" {
			rates = of(m.Model)
		}
		if rates == nil || rates == r {
			longest = max(longest, m.Usage.LongestPrompt)
			continue
		}
		own.Usage, split = own.Without(&m.Usage), true
		part, _ := rates.Cost(Used{Usage: m.Usage, Batch: u.Batch})
		others = others.Plus(part)
	}
	if split {
		own.LongestPrompt = longest
	}
	cost, priced = r.Cost(own)
	return cost.Plus(others), priced
}

// factorOf returns the factor of the whole cost, in millionths.
func (r *Rates) factorOf(u Used) uint64 {
	if u.Batch {
		return r.batch
	}
	return r.factor
}

// addTo adds the parts of a cost, in the order of [billed], and the images.
func (r *Rates) addTo(s *sum, u *Used) {
	var left, paid [All]int64 // what is not paid yet of a whole, and what is paid of a kind
	left[InputTokens], left[OutputTokens] = openai.Count(u.PromptTokens), openai.Count(u.CompletionTokens)
	t := r.tier(cmp.Or(openai.Count(u.LongestPrompt), left[InputTokens]))
	left[InputTokens] = openai.Count(left[InputTokens] + u.MorePrompt)
	left[OutputTokens] = openai.Count(left[OutputTokens] + u.MoreAnswer)
	for _, k := range billed {
		of := Fields[k].Of
		whole := Fields[of].Of
		n := left[whole]
		if k != whole {
			n = *u.At(k)
			if of != whole {
				n = min(n, *u.At(of))
			}
			n -= paid[k]
		}
		n = s.add(n, left[whole], t.rates[k])
		left[whole] -= n
		paid[of] += n
	}
	s.add(u.Images, openai.MaxTokens, r.image)
}

// Estimate returns the maximum cost of so many tokens of text, and whether there is a price. The flag hour means that
// they may be written to a cache for an hour.
func (r *Rates) Estimate(inputTokens, maxOutputTokens int64, hour bool) (cost Nano, priced bool) {
	if r == nil {
		return 0, false
	}
	inputTokens = openai.Count(inputTokens)
	t := r.tier(inputTokens)
	dearest := t.dearestInput
	if hour {
		dearest = max(dearest, t.rates[HourWriteTokens])
	}
	var s sum
	s.add(inputTokens, inputTokens, dearest)
	s.add(maxOutputTokens, openai.MaxTokens, t.dearestOutput)
	return s.nano(r.factor), true
}

// tier returns the tier of a prompt.
func (r *Rates) tier(prompt int64) *tier {
	at := len(r.tiers) - 1
	for at > 0 && prompt <= r.tiers[at].above {
		at--
	}
	return &r.tiers[at]
}

// A sum is in pico-dollars. Eleven addends of 10^16 pico-dollars by 2^40 stay below 2^97.
type sum struct {
	high, low uint64
	lists     bool // lines are wanted
	lines     []Line
}

// add adds the price of n things, at most most, and returns how many it added.
func (s *sum) add(n, most int64, rate uint64) int64 {
	n = min(max(n, 0), most)
	if s.lists {
		s.lines = append(s.lines, Line{Count: n, rate: rate})
	}
	high, low := bits.Mul64(uint64(n), rate)
	var carry uint64
	s.low, carry = bits.Add64(s.low, low, 0)
	s.high += high + carry
	return n
}

// nano returns the sum times a factor in millionths, in nano-dollars, rounded half up. An overflow returns the
// maximum.
func (s *sum) nano(factor uint64) Nano {
	high, low := bits.Mul64(s.low, factor)
	overflow, top := bits.Mul64(s.high, factor)
	var carry uint64
	high, carry = bits.Add64(high, top, 0)
	const unit = million * 1000
	low, roundedUp := bits.Add64(low, unit/2, 0)
	high += roundedUp
	if overflow+carry > 0 || high >= unit {
		return math.MaxInt64
	}
	n, _ := bits.Div64(high, low, unit)
	return Nano(min(n, math.MaxInt64))
}
