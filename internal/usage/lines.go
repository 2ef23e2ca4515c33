package usage

// A Line is a part of a cost.
type Line struct {
	// Part names what is counted.
	Part  string
	Count int64
	rate  uint64 // pico-dollars
}

// Cost returns what the line costs.
func (l Line) Cost() Nano {
	var s sum
	s.add(l.Count, l.Count, l.rate)
	return s.nano(million)
}

// PerMillion returns the price of a million.
func (l Line) PerMillion() Nano { return Nano(l.rate) * 1000 }

// Each returns the price of one, rounded down to a nano-dollar.
func (l Line) Each() Nano { return Nano(l.rate / 1000) }

// ImagePart is the part for generated images. All others count tokens.
const ImagePart = "image"

// Lines returns the parts of the cost of a usage that are not nothing. Their sum, times the factor of the service tier
// or the batch API, is Cost, but for rounding.
func (r *Rates) Lines(u Used) []Line {
	if r == nil {
		return nil
	}
	s := sum{lists: true}
	r.addTo(&s, &u)
	some := make([]Line, 0, len(s.lines))
	for i, l := range s.lines {
		l.Part = ImagePart
		if i < len(billed) {
			l.Part = Fields[billed[i]].Part
		}
		if l.Count > 0 {
			some = append(some, l)
		}
	}
	return some
}
