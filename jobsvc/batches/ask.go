package batches

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/timing"
	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/memory"
)

const (
	maxTries   = 5
	maxBackoff = time.Minute
	maxWait    = 24 * time.Hour // that an answer can ask for: the longest window
	// sheddingPause is how long an asker waits where the process has no memory left for another answer.
	sheddingPause = time.Second
	// keptBuffer is the size of the largest buffer that is kept for the next answer.
	keptBuffer = 64 << 10
)

// A line is a line that is to be asked.
type line struct {
	number    int
	customID  []byte // as JSON
	body      []byte
	maxTokens int64
}

func (l *line) size() int64 { return int64(len(l.customID) + len(l.body)) }

// tokens estimates what the line will use.
func (l *line) tokens() int64 { return int64(len(l.body)/4) + l.maxTokens }

// An asker asks lines, one after the other.
type asker struct {
	s       *Service
	key     string
	project string
	batch   string
	path    string
	shared  *shared
	trace   *lineTrace
	met     *encounter
	buffer  bytes.Buffer // of the answer's body
	held    *memory.Hold // of the batch
	large   int64        // bytes that it has of that for buffer
}

// ask asks a line until an answer is final. It reports false if there is none: begin ended before a try, or asking
// during one.
func (a *asker) ask(begin, asking context.Context, l *line) (answer, bool) {
	for tries, failures := 0, 1; ; failures++ {
		got, v, ok := a.try(begin, asking, l, tries < maxTries-1)
		if !ok {
			return answer{}, false
		}
		if v.final {
			return got, true
		}
		if v.counts {
			tries++
		}
		if tries == maxTries {
			got.normalise()
			return got, true
		}
		a.s.metrics.retries.Inc()
		a.met.add(&got, v, a.s.Now())
		a.done()
		if timing.Sleep(begin, v.pause(a.s.Limits.Backoff, failures)) != nil {
			return answer{}, false
		}
	}
}

// try makes a try. It says whether there is another one if the line needs it.
func (a *asker) try(begin, asking context.Context, l *line, again bool) (answer, verdict, bool) {
	estimate := l.tokens()
	for a.s.Shedding != nil && a.s.Shedding() && timing.Sleep(begin, sheddingPause) == nil {
	}
	if begin.Err() != nil || a.shared.begin(begin, estimate) != nil {
		return answer{}, verdict{}, false
	}
	a.s.metrics.inFlight.Inc()
	began := time.Now()
	got, header, err := a.send(asking, l, again)
	v := judge(&got, header, err)
	a.shared.end(v, began)
	a.s.metrics.inFlight.Dec()
	if v.final {
		got.normalise()
	}
	a.shared.common.pace.settle(estimate, got.usage.TotalTokens)
	if err != nil && asking.Err() != nil {
		return answer{}, verdict{}, false
	}
	return got, v, true
}

// send makes one try. Without an answer, its result says so, and err says why.
func (a *asker) send(ctx context.Context, l *line, again bool) (answer, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, a.s.Limits.Line)
	defer cancel()
	r, err := a.s.Gateway.Ask(a.trace.context(ctx), gateway.Ask{
		Key: a.key, Project: a.project, Charge: a.batch + "/" + strconv.Itoa(l.number), Again: again,
		Method: http.MethodPost, Path: a.path, Body: l.body,
	})
	if err != nil {
		return unanswered(err), nil, err
	}
	defer func() { _ = r.Body.Close() }() // it was read as far as it matters
	n, err := a.read(ctx, r)
	switch {
	case err != nil:
		return unanswered(err), nil, err
	case n > maxLineAnswer:
		return answer{code: openai.CodeResponseTooLarge, message: "The answer to this request is larger than " +
			strconv.Itoa(maxLineAnswer) + " bytes."}, nil, nil
	}
	return answer{status: r.StatusCode, requestID: r.Header.Get("X-Request-Id"), body: a.buffer.Bytes()}, r.Header, nil
}

// smallAnswer is the size of an answer that needs no room of its own.
const smallAnswer = 256 << 10

// read reads an answer into the buffer. A large one has room for all that it may become before more is read.
func (a *asker) read(ctx context.Context, r *http.Response) (int64, error) {
	a.done()
	a.buffer.Reset()
	if r.ContentLength <= smallAnswer {
		n, err := a.buffer.ReadFrom(io.LimitReader(r.Body, smallAnswer+1))
		if err != nil || n <= smallAnswer {
			return n, err
		}
	}
	most := int64(maxLineAnswer)
	if r.ContentLength > smallAnswer {
		most = min(most, r.ContentLength)
	}
	if err := a.held.TakePaid(ctx, answerCopies*most); err != nil {
		return 0, err
	}
	a.large = answerCopies * most
	if r.ContentLength > smallAnswer {
		a.buffer.Grow(int(most) + bytes.MinRead)
	}
	_, err := a.buffer.ReadFrom(io.LimitReader(r.Body, maxLineAnswer+1-int64(a.buffer.Len())))
	return int64(a.buffer.Len()), err
}

// answerCopies is how often a large answer is in memory: as it came, and as a line of its file.
const answerCopies = 2

// done gives up what the answer took.
func (a *asker) done() {
	a.trim()
	a.held.Give(a.large)
	a.large = 0
}

// trim gives up a large buffer once nothing needs what is in it: many more askers wait for their turn than read
// answers.
func (a *asker) trim() {
	if a.buffer.Cap() > keptBuffer {
		a.buffer = bytes.Buffer{}
	}
}

func unanswered(err error) answer {
	if errors.Is(err, context.DeadlineExceeded) {
		return answer{code: openai.CodeRequestTimeout, message: "The request was not answered in time."}
	}
	return answer{code: openai.CodeConnectionError, message: "The connection broke before the request was answered."}
}

// A verdict says what follows one try.
type verdict struct {
	final   bool
	counts  bool          // as one of maxTries
	wait    time.Duration // that the answer asked for
	outcome outcome
}

// judge reads the outcome of a try. A status of 0 without an error is an answer that cannot be used.
func judge(a *answer, h http.Header, err error) verdict {
	if err != nil {
		if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
			return verdict{outcome: nothing} // the gateway is unavailable, which is no fault of the line
		}
		v := verdict{counts: true, outcome: nothing}
		if errors.Is(err, context.DeadlineExceeded) {
			v.outcome = refused
		}
		return v
	}
	v := verdict{counts: true, outcome: nothing, wait: min(provider.RetryAfter(h), maxWait)}
	lasts := h.Get("X-Should-Retry") == "false" // what waiting does not help
	switch a.status {
	case http.StatusTooManyRequests:
		code, typ := a.failure()
		lasts = lasts || code == openai.TypeInsufficientQuota || typ == openai.TypeInsufficientQuota
		// A limit, and who says how long to wait, is waited for as long as the window lasts.
		v.outcome, v.counts = refused, v.wait == 0 && code != openai.CodeRateLimitExceeded
	case http.StatusServiceUnavailable:
		code, _ := a.failure()
		v.outcome, v.counts = refused, !slices.Contains(gatewayAway, code)
	case 529, http.StatusRequestTimeout, http.StatusGatewayTimeout:
		v.outcome = refused
	case http.StatusConflict, http.StatusTooEarly:
	default:
		if a.status < http.StatusInternalServerError {
			v.final, v.wait = true, 0
		}
		if a.completed() {
			v.outcome = served
		}
	}
	if lasts {
		v.final, v.wait, v.outcome = true, 0, nothing
	}
	return v
}

// gatewayAway are the codes by which the gateway says that it cannot ask for now, which is no fault of the line.
var gatewayAway = []openai.Code{openai.CodeGatewayUnavailable, openai.CodeLimitsUnavailable,
	openai.CodeServerIsOverloaded}

// pause returns how long to wait before the next try, after so many failures.
func (v verdict) pause(base time.Duration, failures int) time.Duration {
	d := base
	for i := 1; i < failures && d < maxBackoff; i++ {
		d *= 4
	}
	d = min(d, maxBackoff)
	if v.wait > 0 {
		return v.wait + rand.N(base)
	}
	return d/2 + rand.N(d)
}
