package access

import (
	"strconv"
	"time"

	"github.com/modelgate/modelgate/extproc/message"
	"github.com/modelgate/modelgate/internal/limit"
)

// headersRateLimit are the headers for each kind of limit that OpenAI reports to clients.
var headersRateLimit = [...][3]string{
	{"x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"},
	{"x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"},
	{"x-ratelimit-limit-project-tokens", "x-ratelimit-remaining-project-tokens", "x-ratelimit-reset-project-tokens"},
}

const (
	headerRequests = iota
	headerTokens
	headerProjectTokens
	headerKinds
)

// Headers returns the headers that report limits to the client, by what they count. If several limits count the same,
// a limit that refused is reported, else the nearest one. The nearest is the one with the smallest remaining part
// among the limits per second and minute, or if there are none per hour, or per day.
func (b *Rules) Headers(d limit.Decision) message.Headers {
	nearest := [headerKinds]int{-1, -1, -1}
	for i := range b.Rules {
		r := &b.Rules[i]
		if r.Shadow {
			continue
		}
		switch r.Measure {
		case limit.Requests:
			b.nearer(&nearest[headerRequests], i, d)
		case limit.Tokens, limit.InputTokens, limit.OutputTokens:
			b.nearer(&nearest[headerTokens], i, d)
			if b.Scopes[i].Kind == scopeProject {
				b.nearer(&nearest[headerProjectTokens], i, d)
			}
		}
	}
	var told message.Headers
	var ends [3 * headerKinds]int // of the values
	all := make([]byte, 0, 128)
	for what, i := range nearest {
		if i < 0 {
			continue
		}
		if told == nil {
			told = make(message.Headers, 0, 3*headerKinds)
		}
		for part, name := range headersRateLimit[what] {
			switch part {
			case 0:
				all = strconv.AppendInt(all, b.Rules[i].Limit, 10)
			case 1:
				all = strconv.AppendInt(all, d.States[i].Remaining, 10)
			case 2:
				all = append(all, d.States[i].Reset.Round(time.Millisecond).String()...)
			}
			ends[len(told)] = len(all)
			told = append(told, message.Header{Name: name})
		}
	}
	values, begin := string(all), 0 // in one piece of memory
	for i := range told {
		told[i].Value, begin = values[begin:ends[i]], ends[i]
	}
	return told
}

// nearer replaces the nearest rule by rule i if that is nearer.
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
