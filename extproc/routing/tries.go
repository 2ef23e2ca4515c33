package routing

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/extproc/metering"
)

// A retry is an attempt after the first.
type retry struct {
	number int // from 2
	at     time.Time
}

// SentAt returns when an attempt was sent, if the first was sent at a time.
func (p *Plan) SentAt(number int, first time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.retries {
		if r.number == number {
			return r.at
		}
	}
	return first
}

// Retried reports whether the model's retry policy has a status tried again.
func (p *Plan) Retried(status int) bool {
	return status > 0 && slices.Contains(strings.Split(p.Retry, ","), strconv.Itoa(status))
}

// Tries returns the attempts so far if there are several. The first was sent at the given time. Envoy counts
// attempts, too. It has made those that this process was not asked for as the plan says.
func (p *Plan) Tries(sent time.Time, counted int) []metering.Try {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := counted
	for _, r := range p.retries {
		n = max(n, r.number)
	}
	if n = min(n, len(p.Targets)); n < 2 {
		return nil
	}
	tries := make([]metering.Try, n)
	for i := range tries {
		t := &p.Targets[i]
		tries[i] = metering.Try{Provider: t.Provider.Config.GetName(), Upstream: t.Model, Cluster: t.Cluster}
	}
	tries[0].At = sent
	for _, r := range p.retries {
		tries[r.number-1].At = r.at
	}
	return tries
}
