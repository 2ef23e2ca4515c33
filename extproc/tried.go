package extproc

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	accesslogdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"

	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// envoyFacts are the facts about a request that only Envoy knows.
type envoyFacts struct {
	details  string
	cut      string // who ended it: "client", "provider", or ""
	reason   string // why the provider gave no complete answer, or ""
	status   int
	sent     int64
	received int64 // of the request's body, or of a session
	attempts int
}

const (
	// maxTried is how many failed attempts are remembered until their exchanges ask for them.
	maxTried = 4096
	// maxHeld is how many exchanges wait to learn of their attempts.
	maxHeld = 4096
	// sameClock is how much times of Envoy and of this process may differ that share a host.
	sameClock = 10 * time.Millisecond
	// otherClock is how much they may differ on different hosts.
	otherClock = 250 * time.Millisecond
	// retryAhead is how long a further attempt of Envoy may wait for this process.
	retryAhead = time.Second
)

// A tried remembers the failed attempts that Envoy tells of, until the exchanges that they belong to ask. Envoy's
// record of an attempt has no id of the exchange: an attempt is found by its cluster and its time. Of two exchanges
// whose attempts fail at one provider within the same millisecond, each may get the other's record.
type tried struct {
	apart bool // Envoy may be on another host

	mu       sync.Mutex     // guards the fields below
	attempts []metering.Try // oldest first
	held     []heldRecord
}

// A heldRecord waits for Envoy's records of its attempts.
type heldRecord struct {
	record metering.Record
	facts  envoyFacts
	open   bool // it is not in the spool yet
	since  time.Time
}

// Tell implements exchange.Tried.
func (t *tried) Tell(tries []metering.Try) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tell(tries)
}

// tell reports whether all attempts but the last are known. The caller holds the lock.
func (t *tried) tell(tries []metering.Try) bool {
	all := true
	for i := range max(len(tries)-1, 0) {
		if !tries[i].Known {
			all = t.find(&tries[i], tries[i+1].At) && all
		}
	}
	return all
}

// find completes an attempt that was followed by another at a time, and reports whether Envoy has reported it.
func (t *tried) find(try *metering.Try, next time.Time) bool {
	best, nearest, clock := -1, retryAhead, sameClock
	if t.apart {
		clock = otherClock
	}
	for i := range t.attempts {
		a := &t.attempts[i]
		if a.Cluster != try.Cluster || !next.IsZero() && a.At.Add(a.Duration).After(next.Add(clock)) {
			continue
		}
		if apart := a.At.Sub(try.At).Abs(); apart < nearest {
			best, nearest = i, apart
		}
	}
	if best < 0 {
		return false
	}
	a := t.attempts[best]
	t.attempts = slices.Delete(t.attempts, best, best+1)
	try.At, try.Status, try.Error, try.FirstByte, try.Duration, try.Cool = a.At, a.Status, a.Error, a.FirstByte,
		a.Duration, a.Cool
	try.Known = true
	return true
}

// hold keeps a record whose attempts are not all known, and reports whether it does.
func (t *tried) hold(r *metering.Record, f *envoyFacts, open bool) bool {
	if len(r.Tries) == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tell(r.Tries) || len(t.held) >= maxHeld {
		guess(r)
		return false
	}
	t.held = append(t.held, heldRecord{*r, *f, open, r.End})
	return true
}

// take remembers an attempt, and returns the records that it completes.
func (t *tried) take(a metering.Try) []heldRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.attempts) >= maxTried {
		t.attempts = append(t.attempts[:0], t.attempts[maxTried/4:]...)
	}
	t.attempts = append(t.attempts, a)
	return t.release(func(h *heldRecord) bool { return t.tell(h.record.Tries) })
}

// late returns the records that have waited since before a time.
func (t *tried) late(before time.Time) []heldRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.release(func(h *heldRecord) bool { return h.since.Before(before) })
}

func (t *tried) release(ready func(*heldRecord) bool) (all []heldRecord) {
	kept := t.held[:0]
	for i := range t.held {
		if h := &t.held[i]; ready(h) {
			guess(&h.record)
			all = append(all, *h)
		} else {
			kept = append(kept, *h)
		}
	}
	clear(t.held[len(kept):])
	t.held = kept
	return all
}

// guess completes the attempts that Envoy has not reported: another followed, so they have failed.
func guess(r *metering.Record) {
	for i := range len(r.Tries) - 1 {
		try, next := &r.Tries[i], &r.Tries[i+1]
		if try.Known {
			continue
		}
		try.Error = "failed"
		if !try.At.IsZero() && next.At.After(try.At) {
			try.Duration = next.At.Sub(try.At)
		}
	}
}

// triedOf returns what Envoy's record of an attempt tells.
func triedOf(e *accesslogdatav3.HTTPAccessLogEntry) metering.Try {
	common := e.GetCommonProperties()
	t := metering.Try{Cluster: common.GetUpstreamCluster(), At: common.GetStartTime().AsTime(),
		Duration: common.GetDuration().AsDuration(), FirstByte: common.GetTimeToFirstUpstreamRxByte().AsDuration(),
		Status: int(e.GetResponse().GetResponseCode().GetValue()), Error: reasonOf(common)}
	if t.Error == "" && t.Status >= http.StatusBadRequest {
		t.Error = metering.StatusError(t.Status)
	}
	return t
}

// reasonOf returns why a provider gave no complete answer, or "".
func reasonOf(common *accesslogdatav3.AccessLogCommon) string {
	switch f := common.GetResponseFlags(); {
	case f.GetUpstreamConnectionFailure():
		if why := common.GetUpstreamTransportFailureReason(); why != "" {
			return telemetry.Clip("connection failed: " + strings.TrimPrefix(why, "delayed connect error: "))
		}
		return "connection failed"
	case f.GetUpstreamRequestTimeout():
		return "timeout"
	case f.GetStreamIdleTimeout():
		return "idle timeout"
	case f.GetUpstreamConnectionTermination():
		return "connection closed"
	case f.GetUpstreamRemoteReset():
		return "reset"
	case f.GetUpstreamProtocolError():
		return "protocol error"
	case f.GetNoHealthyUpstream():
		return "no address"
	}
	return ""
}
