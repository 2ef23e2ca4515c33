package routing

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/message"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// A Plan has the attempts for one request, in order. Its decisions never change. The decoders of the answers are added
// when attempts are encoded. It is safe for concurrent use: attempts after the first are encoded on another stream.
type Plan struct {
	ID      string // of the exchange, in its ext_proc process
	Targets []Target
	Timeout time.Duration // of one attempt, until its response headers
	Retry   string        // statuses to retry, comma-separated

	// Kind selects one of Envoy's routes: envoy.KindLLM, or a route on which the bodies pass in one attempt. A plan of
	// envoy.KindJobs has no targets, because there is one job service.
	Kind string

	now     func() time.Time
	catalog *catalog.Catalog

	gates   *Gates
	guarded bool            // see PlanRequest
	judge   Judge           // see PlanRequest; nil: nothing judges
	last    bool            // see provider.Target
	trace   message.Headers // for the targets that get them
	few     [2]Target       // the targets of a model that is not listed
	first   encoded         // until it is sent

	mu           sync.Mutex      // guards the fields below
	request      inbound.Encoder // nil once an answer has begun
	answers      []Answer        // by attempt
	room         [2]Answer       // for the answers of most plans
	retries      []retry         // so far
	releasePlace func()          // releases the place at the provider of the last attempt; may be nil
	ended        bool            // the exchange has ended
}

// A Target is the destination of one attempt.
type Target struct {
	Provider *Provider
	Model    string // the provider's own name
	Cluster  string // in Envoy
}

// maxNames bounds the targets in a record.
const maxNames = 8

// Names returns the targets in their order, each once as "provider/model", or nil if there is only one.
func (p *Plan) Names() (all []string) {
	if len(p.Targets) < 2 {
		return nil
	}
	first := &p.Targets[0]
	for i := 1; i < len(p.Targets) && len(all) < maxNames; i++ {
		t := &p.Targets[i]
		if t.Provider == first.Provider && t.Model == first.Model {
			continue
		}
		if all == nil {
			all = append(make([]string, 0, maxNames), first.name())
		}
		if name := t.name(); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func (t *Target) name() string { return t.Provider.Config.GetName() + "/" + t.Model }

// An Answer tells how the answer to an attempt is decoded.
type Answer struct {
	Built  bool            // the attempt's request was built
	Reader provider.Answer // nil: the answer passes unchanged
	// Names of parameters: see provider.Request.
	Dropped, Adjusted []string
	Body              []byte // of an attempt after the first, if it is short
}

// maxKept bounds the body of an Answer.
const maxKept = 32 << 10

// Retries reports whether Envoy may make further attempts of the plan.
func (p *Plan) Retries() bool { return p.Kind == envoy.KindLLM || p.Kind == envoy.KindSession }

// HasUsualTimeout reports whether Envoy bounds an attempt as the plan says unless it is told otherwise.
func (p *Plan) HasUsualTimeout() bool { return p.Retries() && p.Timeout == usualTimeout }

var usualTimeout = (*configv1.Timeouts)(nil).FirstByteTimeout()

// An Attempt is the request of one attempt, ready to be sent.
type Attempt struct {
	Header message.Headers // including path and content-length
	Remove []string
	Body   []byte // nil for a session, whose request has no body
}

// A PlanRequest has the inputs of a plan.
type PlanRequest struct {
	ID      string // of the exchange
	Model   string // resolved
	Request inbound.Encoder
	Session bool // the request opens a session of the Realtime API
	Guarded bool // a guardrail looks at the answer
	// Judge decides on the request of each attempt before it is sent. Nil: nothing has to.
	Judge    Judge
	Now      func() time.Time
	Random   func(n uint32) uint32
	Gates    *Gates
	Cooldown *Cooldown
	Trace    Trace
}

// A Judge decides whether a request may go to a target as it is encoded. It judges attempts after the first on another
// stream. An error is an *openai.Error.
type Judge interface {
	Judge(t Target, body []byte) error
}

// A Trace is the trace that the attempts of a request join.
type Trace interface {
	// TraceContext returns the headers to join the trace, or none without a trace.
	TraceContext() message.Headers
}

// Plan selects the targets of a request and their order, and encodes the first attempt. If the first provider has a
// free place, Plan takes it and returns true. The plan is not nil even with an error, which is an *openai.Error. The
// context ends with the exchange.
func (t *Table) Plan(ctx context.Context, o *PlanRequest) (p *Plan, a Attempt, free bool, err error) {
	p = &Plan{ID: o.ID, Kind: envoy.KindLLM, request: o.Request, now: o.Now, catalog: t.Catalog, gates: o.Gates,
		guarded: o.Guarded, judge: o.Judge}
	if o.Session {
		p.Kind = envoy.KindSession
	}
	m := t.Models[o.Model]
	if m != nil {
		p.Targets = t.targets(m, o.Random)
	} else if prov, model := t.unlisted(o.Model); !prov.waiting {
		p.Targets = append(p.few[:0], Target{Provider: prov, Model: model})
	}
	if len(p.Targets) == 0 {
		return p, a, false, t.noProvider(o.Model)
	}
	p.traceBy(o.Trace)
	o.Cooldown.order(p.Targets, o.Now)
	if p.first, free, err = p.choose(ctx); err != nil {
		return p, a, false, err
	}
	p.Timeout = attemptTimeout(m, p.Targets)
	p.spread(m)
	a, err = p.begin(1, &p.first)
	p.first = encoded{}
	return p, a, free, err
}

// NewPassed returns the plan of a request that passes unchanged to a target.
func NewPassed(id string, t Target, trace Trace) *Plan {
	p := &Plan{ID: id, Kind: envoy.KindPassed, Targets: []Target{t}, Timeout: attemptTimeout(nil, []Target{t})}
	p.traceBy(trace)
	return p
}

// Acquire takes a place at the only target of a plan. It returns false if no place is free.
func (p *Plan) Acquire(g *Gates) bool {
	place, ok := g.place(p.Targets[0].Provider)
	if ok {
		p.gates, p.releasePlace = g, place
	}
	return ok
}

// choose removes the targets whose vendor cannot serve the request, because Envoy cannot plan again once it retries.
// The first target with a free place becomes the first one, and choose takes the place. If no place is free, the
// request has to wait for one at the first target. Only the request for the first target is built; retries build the
// others. If no target is left, choose returns the error of the first one.
func (p *Plan) choose(ctx context.Context) (first encoded, free bool, err error) {
	all := p.Targets
	p.last = len(all) == 1
	if first, free, err = p.among(ctx); len(p.Targets) == 0 && !p.last && isNeed(err) {
		p.Targets, p.last = all, true
		first, free, err = p.among(ctx)
	}
	return first, free, err
}

// isNeed reports whether the request could be served without a parameter that no target takes.
func isNeed(err error) bool {
	e, ok := errors.AsType[*openai.Error](err)
	return ok && e.Code == openai.CodeUnsupportedParameter && turns.IsNeed(e.Param)
}

// among chooses among the targets.
func (p *Plan) among(ctx context.Context) (first encoded, free bool, err error) {
	kept := p.Targets[:0]
	for _, t := range p.Targets {
		if ctx.Err() != nil {
			return first, free, ClientGone()
		}
		place, got := func() {}, false
		if !free {
			place, got = p.gates.place(t.Provider)
		}
		e, cannot := p.encode(t, !got)
		switch {
		case cannot != nil:
			err = cmp.Or(err, cannot)
			if got {
				place()
			}
		case got:
			first, free, p.releasePlace = e, true, place
			kept = slices.Insert(kept, 0, t)
		default:
			kept = append(kept, t)
		}
	}
	if p.Targets = kept; len(kept) == 0 {
		return first, false, err
	}
	if !free {
		first, err = p.encode(kept[0], false)
		return first, false, err
	}
	return first, true, nil
}

// attemptTimeout returns the timeout of one attempt: the model's, or the longest of its providers. Envoy uses one
// value for all attempts.
func attemptTimeout(m *configv1.Model, targets []Target) time.Duration {
	longest := time.Duration(0)
	for _, t := range targets {
		longest = max(longest, m.GetTimeouts().Over(t.Provider.Config.GetTimeouts()).FirstByteTimeout())
	}
	return longest
}

// spread turns the targets into attempts: each target once, and then again from the first, as many as the model
// allows. For an unlisted model, m is nil.
func (p *Plan) spread(m *configv1.Model) {
	attempts := m.Attempts()
	for i := 0; len(p.Targets) < attempts; i++ {
		p.Targets = append(p.Targets, p.Targets[i])
	}
	p.Targets = p.Targets[:attempts]
	for i := range p.Targets {
		p.Targets[i].Cluster = p.Targets[i].Provider.Cluster(i + 1)
		if p.Kind == envoy.KindSession {
			p.Targets[i].Cluster = p.Targets[i].Provider.clusters.session
		}
	}
	if p.answers = p.room[:]; attempts > len(p.answers) {
		p.answers = make([]Answer, attempts)
	}
	p.Retry = retryStatuses(m)
}

// What is tried again of a model that does not say so, with one target and with several.
var (
	retryOne     = join((*configv1.Model)(nil).RetryStatuses())
	retrySeveral = join((&configv1.Model{Targets: make([]*configv1.Target, 2)}).RetryStatuses())
)

// retryStatuses returns the statuses that are tried again, as Envoy takes them.
func retryStatuses(m *configv1.Model) string {
	switch {
	case len(m.GetRetry().GetStatusCodes()) > 0:
		return join(m.RetryStatuses())
	case len(m.GetTargets()) > 1:
		return retrySeveral
	}
	return retryOne
}

func join(statuses []uint32) string {
	var codes []byte
	for i, status := range statuses {
		if i > 0 {
			codes = append(codes, ',')
		}
		codes = strconv.AppendUint(codes, uint64(status), 10)
	}
	return string(codes)
}

// targets returns the enabled targets of a model, by priority. Within one priority the order is random by weight.
func (t *Table) targets(m *configv1.Model, random func(n uint32) uint32) []Target {
	candidates := make([]*configv1.Target, 0, len(m.GetTargets()))
	for _, target := range m.GetTargets() {
		if p := t.Providers[target.GetProvider()]; p != nil && !p.Config.GetDisabled() {
			candidates = append(candidates, target)
		}
	}
	slices.SortStableFunc(candidates, func(a, b *configv1.Target) int {
		return cmp.Compare(a.GetPriority(), b.GetPriority())
	})
	out := make([]Target, 0, max(len(candidates), m.Attempts()))
	for len(candidates) > 0 {
		i := pick(candidates, random)
		target := candidates[i]
		candidates = slices.Delete(candidates, i, i+1)
		out = append(out, Target{Provider: t.Providers[target.GetProvider()], Model: target.GetModel()})
	}
	return out
}

// pick selects one of the targets with the first one's priority, at random by weight.
func pick(targets []*configv1.Target, random func(n uint32) uint32) int {
	total, n := uint32(0), 0
	for n < len(targets) && targets[n].GetPriority() == targets[0].GetPriority() {
		total += targets[n].Share()
		n++
	}
	if n == 1 {
		return 0
	}
	at := random(total)
	for i := range n {
		w := targets[i].Share()
		if at < w {
			return i
		}
		at -= w
	}
	return n - 1
}

// Encode builds the request of the n-th attempt, counted from 1. An error is an *openai.Error.
func (p *Plan) Encode(n int) (Attempt, error) {
	e, err := p.encode(p.Targets[n-1], false)
	if err != nil {
		return Attempt{}, err
	}
	return p.begin(n, &e)
}

// begin stores how the answer to the n-th attempt is decoded, and returns the attempt.
func (p *Plan) begin(n int, e *encoded) (Attempt, error) {
	p.mu.Lock()
	p.answers[n-1] = Answer{Built: true, Reader: e.answer, Dropped: e.request.Dropped, Adjusted: e.request.Adjusted}
	var err error
	target := p.Targets[n-1]
	if n > 1 {
		if err = p.move(target); err == nil {
			p.retries = append(p.retries, retry{n, p.now()})
			if len(e.request.Body) <= maxKept {
				p.answers[n-1].Body = e.request.Body
			}
		}
	}
	p.mu.Unlock()
	if err != nil {
		return Attempt{}, err
	}
	method := http.MethodPost
	if p.Kind == envoy.KindSession {
		method = http.MethodGet
	}
	a, err := target.Provider.Attempt(method, &e.request, p.now())
	if err != nil {
		return Attempt{}, err
	}
	p.SetTrace(target, &a)
	return a, nil
}

// encoded is a request for a target, with the decoder of its answer.
type encoded struct {
	request provider.Request
	answer  provider.Answer
}

func (p *Plan) encode(t Target, unsent bool) (encoded, error) {
	p.mu.Lock()
	request := p.request
	p.mu.Unlock()
	if request == nil {
		return encoded{}, errReleased
	}
	vendor := &t.Provider.Vendor
	target := provider.Target{Config: t.Provider.Config, Model: t.Model, Unsent: unsent, Guarded: p.guarded,
		Last: p.last, Mixed: slices.ContainsFunc(p.Targets, func(other Target) bool {
			return other.Provider.Vendor.Name != vendor.Name
		})}
	if p.catalog != nil {
		target.Facts = p.catalog.Facts(vendor.Name, t.Model)
	}
	r, answer, err := request.Encode(vendor, target)
	if err == nil && p.judge != nil && !unsent {
		err = p.judge.Judge(t, r.Body)
	}
	return encoded{r, answer}, err
}

// errReleased means that Envoy asked for another attempt after an answer had begun, which it never does.
var errReleased = errors.New("the request was let go of")

// Attempt signs a request, and adds the operator's headers. A request without a body keeps its
// content-length.
func (p *Provider) Attempt(method string, r *provider.Request, now time.Time) (Attempt, error) {
	if r.Header == nil {
		r.Header = make(http.Header, 4)
	}
	s := provider.Signing{Config: p.Config, Credential: p.credential, Method: method, Endpoint: p.endpoint, Now: now}
	if err := p.Vendor.Sign(r, s); err != nil {
		return Attempt{}, openai.CodeUpstreamAuthFailed.New("The gateway's credential for the provider cannot be used.")
	}
	h := make(message.Headers, 0, len(r.Header)+len(p.Config.GetHeaders())+2)
	h = append(h, message.Header{Name: ":path", Value: p.endpoint.Path + r.Path})
	if r.Body != nil {
		h = append(h, message.Header{Name: "content-length", Value: strconv.Itoa(len(r.Body))})
	}
	for name, values := range r.Header {
		h = append(h, message.Header{Name: lower(name), Value: values[0]})
	}
	for name, value := range p.Config.GetHeaders() {
		h = append(h, message.Header{Name: strings.ToLower(name), Value: value})
	}
	return Attempt{Header: h, Body: r.Body}, nil
}

// lower returns the name of a header in lower case.
func lower(name string) string {
	switch name { // those of most requests take no memory
	case "Content-Type":
		return "content-type"
	case "Authorization":
		return "authorization"
	}
	return strings.ToLower(name)
}

// Answer returns the target of the n-th attempt and how its answer is decoded.
func (p *Plan) Answer(n int) (Target, Answer, bool) {
	if n < 1 || n > len(p.Targets) {
		return Target{}, Answer{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.answers[n-1]
	return p.Targets[n-1], a, a.Built
}

// Release releases the request's body: once an answer has begun, there is no further attempt, and streams are long.
func (p *Plan) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.request = nil
}

// traceBy stores the trace's headers for the targets that get them.
func (p *Plan) traceBy(trace Trace) {
	if slices.ContainsFunc(p.Targets, func(t Target) bool { return t.Provider.Config.GetTraceContext() }) {
		p.trace = trace.TraceContext()
	}
}

// SetTrace adds the trace's headers to the request of an attempt, or removes those of an earlier attempt if this
// provider does not get them.
func (p *Plan) SetTrace(t Target, a *Attempt) {
	switch {
	case len(p.trace) == 0:
	case t.Provider.Config.GetTraceContext():
		a.Header = append(a.Header, p.trace...)
	default:
		a.Remove = []string{message.HeaderTraceParent, message.HeaderTraceState}
	}
}
