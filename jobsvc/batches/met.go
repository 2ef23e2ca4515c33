package batches

import (
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	// ofLate is long enough for a rate, and short enough to follow what limits it.
	ofLate = 5 * time.Minute
	// minNote and maxNote bound how soon what lines have met is written without an answer of a line. It is a fiftieth of
	// the time that answers have come for.
	minNote, maxNote = 2 * time.Second, 30 * time.Second
	// maxMetText bounds the message of a Met, in bytes.
	maxMetText = 200
)

// A Met is what the lines of a running batch have met of late. It says why the batch takes long.
type Met struct {
	At        int64   `json:"at"`                   // when it was so
	Answered  int64   `json:"answered,omitempty"`   // when a line was last answered, or a worker first began
	PerMinute float64 `json:"per_minute,omitempty"` // lines that are answered
	// Tries were not the last ones of their lines. What follows is of the newest.
	Tries   int64       `json:"tries,omitempty"`
	TriedAt int64       `json:"tried_at,omitempty"`
	Until   int64       `json:"until,omitempty"` // it asks to be left alone
	Status  int         `json:"status,omitempty"`
	Code    openai.Code `json:"code,omitempty"`
	Message string      `json:"message,omitempty"`
}

// A sample is how many lines had an answer at a time.
type sample struct {
	at   time.Time
	done int
}

// An encounter gathers what the lines of a batch meet. It is safe for concurrent use.
type encounter struct {
	mu      sync.Mutex // guards what follows
	met     Met
	news    bool
	samples []sample
}

// add notes a try after which its line is tried again.
func (e *encounter) add(a *answer, v verdict, now time.Time) {
	said := gjson.GetBytes(a.body, "error")
	code, message := a.code, a.message
	if code == "" {
		code, message = openai.Code(said.Get("code").String()), said.Get("message").String()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	m := Met{Answered: e.met.Answered, Tries: e.met.Tries + 1, TriedAt: now.Unix(), Status: a.status, Code: code,
		Message: clipped(message, maxMetText)}
	if v.wait > 0 {
		m.Until = now.Add(v.wait).Unix()
	}
	e.met, e.news = m, true
}

// isNew reports whether a try was noted since the last call of sum.
func (e *encounter) isNew() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.news
}

// sum returns what was met until now, if so many lines have an answer.
func (e *encounter) sum(done int, now time.Time) *Met {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.samples); e.met.Answered == 0 || n > 0 && done > e.samples[n-1].done {
		e.met.Answered = now.Unix()
	}
	e.samples = slices.DeleteFunc(append(e.samples, sample{now, done}),
		func(s sample) bool { return now.Sub(s.at) > ofLate })
	met := e.met
	met.At, e.news = now.Unix(), false
	if first := e.samples[0]; now.Sub(first.at) >= minNote {
		met.PerMinute = float64(done-first.done) / now.Sub(first.at).Minutes()
	}
	return &met
}

// Progress says what a running batch meets; nil: nothing is known.
func Progress(r *store.Record[Batch]) *adminapi.BatchProgress {
	m := r.Value.Met
	if m == nil || r.Value.Status.Over() {
		return nil
	}
	p := &adminapi.BatchProgress{At: time.Unix(m.At, 0).UTC(), PerMinute: m.PerMinute, Tries: m.Tries, Status: m.Status,
		ErrorCode: string(m.Code), Message: m.Message}
	p.AnsweredAt, p.TriedAt, p.WaitsUntil = timeOf(m.Answered), timeOf(m.TriedAt), timeOf(m.Until)
	return p
}

func timeOf(unix int64) *time.Time {
	if unix == 0 {
		return nil
	}
	at := time.Unix(unix, 0).UTC()
	return &at
}
