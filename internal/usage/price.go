package usage

import (
	"cmp"
	"math"
	"math/bits"

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

// A tier has the prices of a token, in pico-dollars.
type tier struct {
	above                         int64
	input, cached, write, audioIn uint64
	hour                          uint64 // cache writes for an hour
	output, reasoning, audioOut   uint64
	dearestInput, dearestOutput   uint64
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
	// A dollar per million tokens is a millionth of a dollar per token: the decimal in millionths is the rate in
	// pico-dollars.
	base := tier{input: d.read(p.GetInput(), 0), output: d.read(p.GetOutput(), 0)}
	r := &Rates{image: d.read(p.GetImage(), 0) * million}
	if !d.any || d.bad {
		return nil
	}
	r.batch = d.read(p.GetBatchFactor(), defaultBatch)
	base.cached = d.read(p.GetCachedInput(), base.input)
	base.write = d.read(p.GetCacheWrite(), base.input)
	base.hour = d.hour(p.GetCacheWriteHour(), &base, p.GetCacheWrite() != "")
	r.tiers = append(make([]tier, 0, 1+len(p.GetTiers())), d.withRest(base, p))
	for _, t := range p.GetTiers() {
		next := tier{above: t.GetAbovePromptTokens(), output: d.read(t.GetOutput(), base.output)}
		next.input, next.cached, next.write, next.hour = base.input, base.cached, base.write, base.hour
		if t.GetInput() != "" {
			next.input = d.read(t.GetInput(), 0)
			next.cached, next.write, next.hour = next.input, next.input, next.input
		}
		next.cached = d.read(t.GetCachedInput(), next.cached)
		next.write = d.read(t.GetCacheWrite(), next.write)
		if t.GetInput()+t.GetCacheWrite()+t.GetCacheWriteHour() != "" {
			next.hour = d.hour(t.GetCacheWriteHour(), &next, t.GetCacheWrite() != "")
		}
		r.tiers = append(r.tiers, d.withRest(next, p))
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
		if s.GetInput()+s.GetOutput()+s.GetCachedInput()+s.GetCacheWrite()+s.GetCacheWriteHour() != "" {
			own := &configv1.Price{Input: cmp.Or(s.GetInput(), p.GetInput()), Output: cmp.Or(s.GetOutput(), p.GetOutput()),
				CachedInput:    cmp.Or(s.GetCachedInput(), p.GetCachedInput()),
				CacheWrite:     cmp.Or(s.GetCacheWrite(), p.GetCacheWrite()),
				CacheWriteHour: cmp.Or(s.GetCacheWriteHour(), p.GetCacheWriteHour()),
				InputAudio:     p.GetInputAudio(), OutputAudio: p.GetOutputAudio(), Reasoning: p.GetReasoning(),
				Image: p.GetImage(), BatchFactor: p.GetBatchFactor()}
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

// hour parses the price of cache writes for an hour. If it is empty, it is the price of other cache writes, and at
// least twice the input price if other writes have a price of their own, as with all vendors that offer this.
func (d *decimals) hour(text string, t *tier, writes bool) uint64 {
	empty := t.write
	if writes {
		empty = max(empty, 2*t.input)
	}
	return d.read(text, empty)
}

// withRest adds prices that are the same for prompts of all lengths. Missing prices follow from the tier's own.
func (d *decimals) withRest(t tier, p *configv1.Price) tier {
	t.audioIn = d.read(p.GetInputAudio(), t.input)
	t.audioOut = d.read(p.GetOutputAudio(), t.output)
	t.reasoning = d.read(p.GetReasoning(), t.output)
	t.dearestInput = max(t.input, t.cached, t.write)
	t.dearestOutput = max(t.output, t.reasoning)
	return t
}

// Cost returns the cost of a usage, and whether there is a price. Every token is paid once, even if the provider
// counts it in two classes. Cached comes before cache write and audio in the prompt, and reasoning before audio in the
// answer.
func (r *Rates) Cost(u Used) (cost Nano, priced bool) {
	if r == nil {
		return 0, false
	}
	var s sum
	r.addTo(&s, u)
	return s.nano(r.factorOf(u)), true
}

// factorOf returns the factor of the whole cost, in millionths.
func (r *Rates) factorOf(u Used) uint64 {
	if u.Batch {
		return r.batch
	}
	return r.factor
}

// addTo adds the parts of a cost, in the order of the names in [Rates.Lines].
func (r *Rates) addTo(s *sum, u Used) {
	prompt, answer := openai.Count(u.PromptTokens), openai.Count(u.CompletionTokens)
	t := r.tier(cmp.Or(openai.Count(u.LongestPrompt), prompt))
	prompt, answer = openai.Count(prompt+u.MorePrompt), openai.Count(answer+u.MoreAnswer)
	prompt -= s.add(u.CachedTokens, prompt, t.cached)
	hour := s.add(min(u.HourWriteTokens, u.CacheWriteTokens), prompt, t.hour)
	prompt -= hour
	prompt -= s.add(u.CacheWriteTokens-hour, prompt, t.write)
	prompt -= s.add(u.PromptAudio, prompt, t.audioIn)
	s.add(prompt, prompt, t.input)
	answer -= s.add(u.ReasoningTokens, answer, t.reasoning)
	answer -= s.add(u.CompletionAudio, answer, t.audioOut)
	s.add(answer, answer, t.output)
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
		dearest = max(dearest, t.hour)
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

// A sum is in pico-dollars. Nine addends of 10^16 pico-dollars by 2^40 stay below 2^97.
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
