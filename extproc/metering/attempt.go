package metering

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/usage"
)

// A Try is an attempt of an exchange that had several.
type Try struct {
	At                  time.Time // it was sent
	Provider, Upstream  string
	Cluster             string // of Envoy
	Status              int    // of the provider's answer; 0: none
	Error               string // why it failed
	FirstByte, Duration time.Duration
	Cool                time.Duration // how long the provider is left alone because of it
	Known               bool          // Envoy has reported how it ended
	Prompt              int64         // the tokens of its prompt
	Cost                usage.Nano    // of the prompt
	Used                *openai.Usage // nil: Cost is for the prompt alone
	estimated, charged  bool
}

// End notes how an attempt ended whose answer began with a status of success and failed. What it used is in the
// record.
func (t *Try) End(r *Record, why string, cool time.Duration, now time.Time) {
	used := r.Usage
	t.Known, t.Status, t.Error, t.Cool, t.Duration = true, r.Answered, why, cool, now.Sub(t.At)
	t.Used, t.Cost, t.estimated = &used, r.Cost, r.Estimated
	if !r.FirstByte.IsZero() {
		t.FirstByte = r.FirstByte.Sub(t.At)
	}
}

// Reopen prepares the record for the answer to a further attempt, after End of the one before.
func (r *Record) Reopen(attempt int) {
	r.Attempts, r.Answered, r.Status, r.Outcome, r.Error = attempt, 0, 0, "", nil
	r.Usage, r.Images, r.Estimated, r.Cost, r.Fees, r.Priced = openai.Usage{}, 0, false, 0, 0, false
	r.UpstreamID, r.FirstByte, r.FirstChunk = "", time.Time{}, time.Time{}
}

// late are the ends of attempts in which the provider had got the request, and broken those in which it probably had,
// if it was a while ago: a connection that was idle may break as the request is sent. It bills the prompt.
var (
	late   = map[string]bool{"timeout": true, "idle timeout": true}
	broken = map[string]bool{"connection closed": true, "reset": true, "protocol error": true}
)

// stale is how soon a connection breaks that was idle.
const stale = time.Second

// ChargeTries adds the prompts of the attempts before the last that a provider bills, as far as Envoy has reported how
// they ended, each once.
func (r *Record) ChargeTries() {
	for i := range len(r.Tries) - 1 {
		t := &r.Tries[i]
		if t.Used != nil && !t.charged {
			t.charged, r.Estimated = true, r.Estimated || t.estimated
			r.Usage.Add(t.Used)
			r.Cost = r.Cost.Plus(t.Cost)
		}
		billed := late[t.Error] || broken[t.Error] && t.Duration >= stale
		if t.charged || t.Status >= http.StatusBadRequest || !billed {
			continue
		}
		t.charged, r.Estimated = true, true
		r.Usage.PromptTokens += t.Prompt
		r.Usage.TotalTokens = max(r.Usage.TotalTokens, r.Usage.PromptTokens+r.Usage.CompletionTokens)
		r.Cost = r.Cost.Plus(t.Cost)
	}
}

// Reached reports whether a provider had got the request, from the details of an answer that Envoy gave in its place
// after some time.
func Reached(details string, after time.Duration) bool {
	in := func(part string) bool { return strings.Contains(details, part) }
	switch {
	case in("connection_timeout"), in("connection_failure"), in("overflow"):
		return false
	case in("timeout"), in("response_payload_too_large"):
		return true
	}
	return after >= stale && (in("{connection_termination") || in("{remote_reset") || in("{protocol_error"))
}

// EndsInJournal reports whether the record is complete only after Envoy's logs.
func (r *Record) EndsInJournal() bool {
	for i := range len(r.Tries) - 1 {
		if !r.Tries[i].Known {
			return true
		}
	}
	return r.AwaitsEnvoy()
}

// Attempted returns the attempts for the ledger, or nil if the other fields of the record tell everything.
func (r *Record) Attempted() []*ledgerv1.Attempt {
	if len(r.Tries) == 0 {
		if r.Reason == "" && r.Cool == 0 && (r.Answered == 0 || r.Answered == r.Status) || r.Provider == "" {
			return nil
		}
		return []*ledgerv1.Attempt{r.attempt(&Try{At: r.SentAt, Provider: r.Provider, Upstream: r.Upstream}, "first", true)}
	}
	list := make([]*ledgerv1.Attempt, len(r.Tries))
	for i := range r.Tries {
		kind := "first"
		switch {
		case i > 0 && r.Tries[i].Provider == r.Tries[i-1].Provider:
			kind = "retry"
		case i > 0:
			kind = "fallback"
		}
		list[i] = r.attempt(&r.Tries[i], kind, i == len(r.Tries)-1)
	}
	return list
}

// attempt returns an attempt for the ledger. The last is as the exchange has seen it.
func (r *Record) attempt(t *Try, kind string, last bool) *ledgerv1.Attempt {
	a := &ledgerv1.Attempt{Kind: kind, Provider: t.Provider, UpstreamModel: t.Upstream, Status: uint32(max(t.Status, 0)),
		Error: t.Error, StartMs: r.since(t.At), FirstByteMs: t.FirstByte.Milliseconds(),
		DurationMs: t.Duration.Milliseconds(), CoolMs: t.Cool.Milliseconds()}
	if !last {
		return a
	}
	a.Status, a.Error, a.CoolMs = uint32(max(r.Answered, 0)), r.lastError(), r.Cool.Milliseconds()
	a.DurationMs = max(r.since(r.End)-a.StartMs, 0)
	if a.FirstByteMs = 0; !r.FirstByte.IsZero() {
		a.FirstByteMs = max(r.since(r.FirstByte)-a.StartMs, 1)
	}
	return a
}

// since returns the milliseconds from the begin of the exchange to a time, or 0 for the zero time.
func (r *Record) since(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(r.Start).Milliseconds(), 0)
}

// lastError returns why the last attempt failed, or "".
func (r *Record) lastError() string {
	switch r.Outcome {
	case OutcomeFailed, OutcomeTruncated, OutcomeGateway:
	default:
		return ""
	}
	why := r.ErrorCode()
	if r.Answered >= 400 {
		why = StatusError(r.Answered)
	}
	return cmp.Or(r.Reason, why, string(r.Outcome))
}

// StatusError returns the error of an attempt that was answered with a status.
func StatusError(status int) string { return "status " + strconv.Itoa(status) }
