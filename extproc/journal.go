package extproc

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	accesslogdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/peers"
	"github.com/modelgate/modelgate/extproc/transport"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/internal/usage"
)

// flushWait is how long the record of a cut exchange waits for Envoy's record. Envoy flushes its access log every 0.1
// s. If Envoy has died, the record must not be lost.
const flushWait = 2 * time.Second

// restWait is how long the record of a session waits whose last response is not charged. The connection may last
// longer than the session.
const restWait = time.Minute

// A journal writes one line for each request. An exchange knows the client and the answer. Envoy knows who cut the
// exchange, how an unseen answer ended, and which requests it answered alone. Envoy sends its record only for these.
// The journal joins the two records of a request by the exchange's id.
type journal struct {
	log     *zap.Logger
	metrics *metrics
	sampler *sampler
	spool   usage.Spool // or nil
	process string      // prefix of the ids of this process's exchanges
	tried   tried
	refused *refusedRequests // or nil
	// broke is called with a provider that has broken an answer off before its content. It may be nil.
	broke func(provider string)

	mu      sync.Mutex // guards the fields below
	records map[string]waiting
	entries map[string]waitingEntry // Envoy's records that arrived before the exchange's
}

type waiting struct {
	record metering.Record
	since  time.Time
}

type waitingEntry struct {
	entry *accesslogdatav3.HTTPAccessLogEntry
	since time.Time
}

func newJournal(log *zap.Logger, m *metrics, s *sampler, spool usage.Spool, process string) *journal {
	return &journal{log: log, metrics: m, sampler: s, spool: spool, process: process, records: make(map[string]waiting),
		entries: make(map[string]waitingEntry)}
}

// exchange handles the record of an exchange that has ended.
func (j *journal) exchange(r metering.Record) {
	if !r.AwaitsEnvoy() {
		j.write(r, envoyFacts{})
		return
	}
	j.mu.Lock()
	met, ok := j.entries[r.ID]
	if ok {
		delete(j.entries, r.ID)
	} else {
		j.records[r.ID] = waiting{record: r, since: r.End}
	}
	j.mu.Unlock()
	if ok {
		j.write(r, factsOf(met.entry))
	}
}

// run writes the records that wait too long for the other one, until ctx ends.
func (j *journal) run(ctx context.Context) {
	tick := time.NewTicker(flushWait / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			j.sweep(time.Now().Add(restWait))
			j.sampler.report(j.log, time.Now().Add(leftOutEvery))
			_ = j.log.Sync() // the error cannot be reported
			return
		case now := <-tick.C:
			j.sweep(now)
			j.sampler.report(j.log, now)
		}
	}
}

func (j *journal) sweep(now time.Time) {
	var late []metering.Record
	j.mu.Lock()
	for id, w := range j.records {
		if now.Sub(w.since) >= flushWait && (w.record.Rest == nil || now.Sub(w.since) >= restWait) {
			late = append(late, w.record)
			delete(j.records, id)
		}
	}
	for id, w := range j.entries {
		if now.Sub(w.since) >= flushWait {
			delete(j.entries, id) // of an exchange that was not cut and has its line
		}
	}
	j.mu.Unlock()
	for _, r := range late {
		j.write(r, envoyFacts{})
	}
	j.putAll(j.tried.late(now.Add(-flushWait / 2)))
}

// attempt handles an attempt that failed.
func (j *journal) attempt(a metering.Try) { j.putAll(j.tried.take(a)) }

func (j *journal) putAll(held []heldRecord) {
	for i := range held {
		j.put(&held[i].record, &held[i].facts, held[i].open)
	}
}

// logs handles the access log on one stream. Records and requests do not wait for each other.
type logs struct {
	server   *Server
	stream   *transport.Stream
	attempts bool // of providers' clusters, as the first message tells
	fromPeer bool // nothing is sent on
}

func (l *logs) take(in *accesslogv3.StreamAccessLogsMessage) {
	l.attempts = l.attempts || in.GetIdentifier().GetLogName() == envoy.LogAttempts
	if !l.fromPeer {
		l.server.peers.Relay(in, l.attempts)
	}
	for _, entry := range in.GetHttpLogs().GetLogEntry() {
		if l.attempts {
			l.server.attempt(entry, !l.fromPeer)
		} else {
			l.server.journal.envoy(entry)
		}
	}
}

// openLogs returns the handler of a stream of Envoy's access log. The stream ends with the process.
func (s *Server) openLogs(stream *transport.Stream, fromPeer bool) *logs {
	s.drain.takers.Go(func() {
		select {
		case <-stream.Done():
		case <-s.drain.over:
			stream.Fail(status.Error(codes.Unavailable, "the process ends"))
			<-stream.Done()
		}
	})
	return &logs{server: s, stream: stream, fromPeer: fromPeer}
}

// Message implements [transport.Handler].
func (l *logs) Message(b []byte, _ bool) error {
	in := &accesslogv3.StreamAccessLogsMessage{}
	if err := proto.Unmarshal(b, in); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return l.stream.Go(func() error {
		l.take(in)
		return nil
	})
}

// Close implements [transport.Handler].
func (l *logs) Close() error {
	_ = l.stream.Send(transport.Encoded(nil)) // an empty message; it fails if Envoy has left
	return nil
}

// envoy handles a record of Envoy.
func (j *journal) envoy(e *accesslogdatav3.HTTPAccessLogEntry) {
	id := peers.ExchangeOf(e)
	if !strings.HasPrefix(id, j.process) {
		j.envoyAlone(e)
		return
	}
	j.mu.Lock()
	w, ok := j.records[id]
	if ok {
		delete(j.records, id)
	} else {
		j.entries[id] = waitingEntry{entry: e, since: time.Now()}
	}
	j.mu.Unlock()
	if ok {
		j.write(w.record, factsOf(e))
	}
}

func factsOf(e *accesslogdatav3.HTTPAccessLogEntry) envoyFacts {
	common := e.GetCommonProperties()
	return envoyFacts{
		details:  e.GetResponse().GetResponseCodeDetails(),
		cut:      cutBy(common.GetResponseFlags()),
		reason:   reasonOf(common),
		status:   int(e.GetResponse().GetResponseCode().GetValue()),
		sent:     int64(e.GetResponse().GetResponseBodyBytes()),
		received: int64(e.GetRequest().GetRequestBodyBytes()),
		attempts: int(common.GetUpstreamRequestAttemptCount()),
	}
}

// cutBy returns who ended a request early.
func cutBy(f *accesslogdatav3.ResponseFlags) string {
	switch {
	case f.GetDownstreamConnectionTermination(), f.GetDownstreamRemoteReset():
		return "client"
	case f.GetUpstreamConnectionTermination(), f.GetUpstreamRemoteReset(), f.GetUpstreamProtocolError(),
		f.GetUpstreamRequestTimeout(), f.GetStreamIdleTimeout():
		return "provider"
	}
	return ""
}

// envoyAlone writes a line for a request without an exchange in this process: Envoy refused it as malformed or too
// large, or the exchange's process is gone.
func (j *journal) envoyAlone(e *accesslogdatav3.HTTPAccessLogEntry) {
	f := factsOf(e)
	j.metrics.requests.WithLabelValues("", "", string(metering.OutcomeGateway), statusClass(f.status)).Inc()
	if !j.sampler.allow(time.Now()) {
		return
	}
	j.log.Info("request",
		zap.String("request_id", telemetry.Clip(e.GetRequest().GetRequestId())),
		zap.String("method", e.GetRequest().GetRequestMethod().String()),
		zap.String("path", telemetry.Clip(cutQuery(e.GetRequest().GetPath()))),
		zap.Int("status", f.status),
		zap.String("outcome", string(metering.OutcomeGateway)),
		zap.String("details", f.details),
		zap.String("cut_by", f.cut),
		zap.Int64("bytes_sent", f.sent),
		zap.Duration("total", e.GetCommonProperties().GetDuration().AsDuration()))
}

// write writes a record as soon as its attempts are known.
func (j *journal) write(r metering.Record, f envoyFacts) {
	if open := r.EndsInJournal(); !j.tried.hold(&r, &f, open) {
		j.put(&r, &f, open)
	}
}

// put writes a record, also to the spool if it is not there yet.
func (j *journal) put(r *metering.Record, f *envoyFacts, open bool) {
	settle(r, f)
	if j.broke != nil && f.cut == "provider" && r.Sent == 0 && !r.Unseen && r.Answered == http.StatusOK {
		j.broke(r.Provider)
	}
	r.ChargeTries()
	if rest := r.Rest; rest != nil {
		r.Rest = nil
		j.put(rest.Sent(f.received), &envoyFacts{}, true)
	}
	if open && r.Dispatched && j.spool != nil {
		j.spool.End(r.Entry())
	}
	if j.refused != nil {
		j.refused.note(r)
	}
	j.metrics.observe(r)
	endSpan(r)
	if ofStranger(r) && !j.sampler.allow(r.End) {
		return
	}
	j.log.Info("request", zap.Inline(&line{r, f})) // last, so that whoever sees the line finds the rest
}

// settle sets the outcome of an exchange that was cut, or may have been.
func settle(r *metering.Record, f *envoyFacts) {
	if r.Status == 0 {
		r.Status = f.status
	}
	if r.Outcome == metering.OutcomeGateway {
		r.Reason = f.reason
	}
	if r.Outcome != metering.OutcomeCut && !r.Unseen {
		return
	}
	if f.cut == "provider" {
		r.Reason = f.reason
	}
	switch f.cut {
	case "client":
		r.Outcome = metering.OutcomeCancelled
	case "provider":
		r.Outcome = metering.OutcomeTruncated
	}
}

// A line is a line of the access log. Its members are written one by one, because zap's fields would cause a fifth of
// a request's allocations.
type line struct {
	*metering.Record
	facts *envoyFacts
}

// add adds a value that a client or a provider may have chosen.
func add(e zapcore.ObjectEncoder, name, value string) { e.AddString(name, telemetry.Clip(value)) }

func addKnown(e zapcore.ObjectEncoder, name, value string) {
	if value != "" {
		add(e, name, value)
	}
}

// attemptLines are the attempts in a line.
type attemptLines []*ledgerv1.Attempt

// MarshalLogArray implements zapcore.ArrayMarshaler.
func (l attemptLines) MarshalLogArray(e zapcore.ArrayEncoder) error {
	for _, a := range l {
		if err := e.AppendObject(zapcore.ObjectMarshalerFunc(func(e zapcore.ObjectEncoder) error {
			e.AddString("kind", a.GetKind())
			e.AddString("provider", a.GetProvider())
			add(e, "upstream_model", a.GetUpstreamModel())
			e.AddUint32("status", a.GetStatus())
			addKnown(e, "error", a.GetError())
			e.AddDuration("start", time.Duration(a.GetStartMs())*time.Millisecond)
			e.AddDuration("first_byte", time.Duration(a.GetFirstByteMs())*time.Millisecond)
			e.AddDuration("duration", time.Duration(a.GetDurationMs())*time.Millisecond)
			return nil
		})); err != nil {
			return err
		}
	}
	return nil
}

// addUsage adds what the request has used and costs.
func (l *line) addUsage(e zapcore.ObjectEncoder) {
	e.AddInt64("prompt_tokens", l.Usage.PromptTokens)
	e.AddInt64("completion_tokens", l.Usage.CompletionTokens)
	e.AddInt64("cached_tokens", l.Usage.CachedTokens)
	e.AddInt64("reasoning_tokens", l.Usage.ReasoningTokens)
	if l.Estimated {
		e.AddBool("estimated", true)
	}
	if l.Doubtful {
		e.AddBool("usage_doubtful", true)
	}
	if l.Priced {
		e.AddString("cost_usd", l.Cost.String())
	}
}

// MarshalLogObject implements zapcore.ObjectMarshaler.
func (l *line) MarshalLogObject(e zapcore.ObjectEncoder) error {
	add(e, "request_id", l.RequestID)
	if l.Span != nil {
		if at := l.Span.SpanContext(); at.IsValid() {
			e.AddString("trace_id", at.TraceID().String())
			if !at.IsRemote() { // otherwise the span is the client's
				e.AddString("span_id", at.SpanID().String())
			}
		}
	}
	add(e, "method", l.Method)
	add(e, "path", l.Path)
	e.AddString("operation", l.Operation)
	e.AddString("key_id", l.Key)
	addKnown(e, "key_name", l.KeyName)
	addKnown(e, "organization", l.Organization)
	addKnown(e, "project", l.Project)
	addKnown(e, "user", l.User)
	if l.Internal {
		e.AddBool("internal", true)
	}
	addKnown(e, "charge", l.Charge)
	add(e, "model", l.Model)
	e.AddString("provider", l.Provider)
	add(e, "upstream_model", l.Upstream)
	e.AddInt("attempts", max(l.Attempts, l.facts.attempts))
	if list := l.Attempted(); len(list) > 0 {
		_ = e.AddArray("attempt_list", attemptLines(list)) // which returns no error
	}
	e.AddBool("stream", l.Stream)
	e.AddInt("status", l.Status)
	e.AddString("outcome", string(l.Outcome))
	e.AddString("cut_by", l.facts.cut)
	e.AddString("details", l.facts.details)
	l.addUsage(e)
	e.AddInt64("bytes_sent", max(l.Sent, l.facts.sent))
	e.AddDuration("total", l.End.Sub(l.Start))
	if !l.FirstByte.IsZero() {
		e.AddDuration("first_byte", l.FirstByte.Sub(l.Start))
	}
	if l.Error != nil {
		add(e, "error_type", l.Error.Type)
		add(e, "error_code", string(l.Error.Code))
	}
	addKnown(e, "refused_by", l.RefusedBy)
	addKnown(e, "guards", strings.Join(l.Guards.Texts(), ", "))
	addKnown(e, "policy", l.Policy)
	addKnown(e, "cache", l.Cache.Text())
	addKnown(e, "key_hint", l.KeyHint)
	return nil
}
