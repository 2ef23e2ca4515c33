package access

import (
	"strconv"
	"time"

	"github.com/modelgate/modelgate/extproc/message"
	"github.com/modelgate/modelgate/internal/limit"
)

// headersRateLimit are those of each thing that OpenAI tells clients the limits of.
var headersRateLimit = [...][3]string{
	{"x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"},
	{"x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"},
	{"x-ratelimit-limit-project-tokens", "x-ratelimit-remaining-project-tokens", "x-ratelimit-reset-project-tokens"},
}

const (
	tellRequests = iota
	tellTokens
	tellProjectTokens
	tellings
)

// Tell returns what the client is told of the limits that hold for it, by what they count. Of several it is the limit
// that has refused, or else the one that is nearest: of those by the second or minute, or where there is none by the
// hour, or by the day, the one of which the smallest part is left.
func (b *Rules) Tell(d limit.Decision) message.Headers {
	nearest := [tellings]int{-1, -1, -1}
	for i := range b.Rules {
		r := &b.Rules[i]
		if r.Shadow {
			continue
		}
		switch r.Measure {
		case limit.Requests:
			b.nearer(&nearest[tellRequests], i, d)
		case limit.Tokens, limit.InputTokens, limit.OutputTokens:
			b.nearer(&nearest[tellTokens], i, d)
			if b.Whose[i].Kind == scopeProject {
				b.nearer(&nearest[tellProjectTokens], i, d)
			}
		}
	}
	var told message.Headers
	for what, i := range nearest {
		if i < 0 {
			continue
		}
		if told == nil {
			told = make(message.Headers, 0, 3*tellings)
		}
		names, state := &headersRateLimit[what], &d.States[i]
		told = append(told,
			message.Header{Name: names[0], Value: strconv.FormatInt(b.Rules[i].Limit, 10)},
			message.Header{Name: names[1], Value: strconv.FormatInt(state.Remaining, 10)},
			message.Header{Name: names[2], Value: state.Reset.Round(time.Millisecond).String()})
	}
	return told
}

// nearer makes rule i the nearest where it is.
func (b *Rules) nearer(nearest *int, i int, d limit.Decision) {
	switch a := *nearest; {
	case a < 0, i == d.Refused:
		*nearest = i
	case a == d.Refused:
	case rank(b.Rules[i].Window) != rank(b.Rules[a].Window):
		if rank(b.Rules[i].Window) < rank(b.Rules[a].Window) {
			*nearest = i
		}
	case part(&b.Rules[i], d.States[i]) < part(&b.Rules[a], d.States[a]):
		*nearest = i
	}
}

// rank orders windows by how soon they matter.
func rank(w limit.Window) limit.Window { return max(w, limit.Minute) }

func part(r *limit.Rule, s limit.State) float64 { return float64(s.Remaining) / float64(r.Limit) }
