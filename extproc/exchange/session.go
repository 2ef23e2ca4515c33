package exchange

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/usage"
	"github.com/modelgate/modelgate/internal/websocket"
)

// sessionTick is how often a session checks whether its key may still be used.
const sessionTick = time.Second

// metered are the measures that a session uses up as it goes on. The request and its place in a limit of concurrency
// are reserved at the handshake, and held to the end.
var metered = []limit.Measure{limit.Tokens, limit.InputTokens, limit.OutputTokens, limit.Cost}

// live is the state of a session of the Realtime API.
type live struct {
	offered []string     // the subprotocols for the provider
	from    string       // the client's address, in Envoy's format
	key     secret.Value // the client's, as a header has it

	watch metering.SessionWatch
	rules *access.Rules // limits of what it uses; nil: none
	parts int           // charged so far
	since time.Time     // of the part that is charged next
	// owed is what was used above a limit. It is settled with the session, which ends then.
	owed limit.Amounts

	begun int           // the number of the part that has begun; 0: none
	hold  metering.Hold // for it, or for the next one
	held  openai.Usage  // that the hold is for

	ending *openai.Error // why the gateway ends the session; it waits for the end of a frame
	late   bool          // it has waited for a tick
}

// InSession reports whether pieces of the answer belong to a session, and may reserve usage.
func (x *Exchange) InSession() bool { return x.session != nil }

// beginSession handles the answer of a provider that has upgraded the connection.
func (x *Exchange) beginSession(h Headers) Reply {
	x.c.Env.Cooldown.Served(x.c.Provider, x.c.Record.Start)
	x.state, x.account.Begun, x.account.Refused = inSession, true, false
	x.session.since = x.c.Env.Now()
	reply := Reply{Set: x.answer.Own, Remove: x.c.Removed[:0], Patience: sessionTick, Log: true}
	for i := range h {
		if name := h[i].Name; name[0] != ':' && !forwardedFromSession[name] {
			reply.Remove = append(reply.Remove, name)
		}
	}
	// A browser fails if none of the protocols that it has offered is chosen.
	if offered := x.session.offered; len(offered) > 0 {
		chosen := h.Get(call.HeaderProtocol)
		if !slices.Contains(offered, chosen) {
			chosen = offered[0]
		}
		reply.Remove = slices.DeleteFunc(reply.Remove, func(name string) bool { return name == call.HeaderProtocol })
		reply.Set = append(reply.Set, Header{Name: call.HeaderProtocol, Value: chosen})
	}
	return reply
}

// sessionPiece passes a piece of the provider's frames, and charges what they report.
func (x *Exchange) sessionPiece(ctx context.Context, piece []byte, end bool) Reply {
	s := x.session
	charges, err := s.watch.Feed(piece)
	for i := range charges {
		x.chargePart(ctx, &charges[i])
	}
	if prompt, open := s.watch.Open(); open && s.begun == 0 {
		x.beginPart(prompt)
	}
	x.cover(ctx)
	status, closed := s.watch.Closed()
	switch {
	case err != nil:
		x.c.Record.Error = pipeline.ClientError(provider.ErrNotAnAnswer)
		return x.endSession(metering.OutcomeFailed, nil)
	case closed:
		x.providerCloses(status)
	case end:
		x.c.Record.Outcome = metering.OutcomeTruncated
		x.c.Finish()
	case s.ending != nil && s.watch.Boundary() >= 0:
		return x.refuseSession(piece[:s.watch.Boundary()])
	}
	return Reply{}
}

// providerCloses ends the exchange at the provider's close frame. The connection lasts a little longer.
func (x *Exchange) providerCloses(status uint16) {
	switch status {
	case websocket.StatusNormal, websocket.StatusGoingAway, websocket.StatusNone:
		x.c.Record.Outcome = metering.OutcomeFinished
	default:
		x.c.Record.Outcome = metering.OutcomeFailed
		if reported := x.session.watch.Failure(); reported != "" {
			x.c.Record.Error = x.c.Provider.Scrub(x.c.Provider.Vendor.DecodeError(http.StatusBadGateway, http.Header{},
				[]byte(`{"error":`+reported+`}`)))
		} else {
			x.c.Record.Error = pipeline.ClientError(provider.ErrTruncated)
		}
	}
	x.c.Finish()
}

// refuseSession ends the session with a close frame after frames that are complete. The reason is the error's code.
// Within a frame, the connection is closed without one.
func (x *Exchange) refuseSession(frames []byte) Reply {
	e, last := x.session.ending, []byte(nil)
	if x.c.Record.Error = e; frames != nil {
		last = websocket.AppendClose(slices.Clone(frames), websocket.StatusPolicyViolation, cmp.Or(string(e.Code), e.Type))
	}
	return x.endSession(metering.OutcomeRejected, last)
}

// endSession ends the exchange, and closes the connection after the last bytes.
func (x *Exchange) endSession(o metering.Outcome, last []byte) Reply {
	x.c.Record.Outcome = o
	x.c.Finish()
	return Reply{ReplaceBody: true, Body: last, End: true}
}

// tick ends the session if its key may not be used any more. It reports whether it did.
func (x *Exchange) tick() (Reply, bool) {
	s := x.session
	if s.ending == nil {
		s.ending = x.revoked()
	}
	switch {
	case s.ending == nil:
		return Reply{Patience: sessionTick}, false
	case !s.watch.AtBoundary() && !s.late:
		s.late = true
		return Reply{Patience: sessionTick}, false
	}
	var frames []byte
	if s.watch.AtBoundary() {
		frames = []byte{}
	}
	x.duplex.over = true
	return x.release(x.refuseSession(frames).Body, true, nil), true
}

// revoked checks the client's key against the current configuration.
func (x *Exchange) revoked() *openai.Error {
	if x.c.Env.Current == nil {
		return nil
	}
	current := x.c.Env.Current()
	if current == nil {
		return nil
	}
	s := x.session
	_, e := current.Directory.Admit(&access.Caller{Authorization: s.key.Reveal(), Address: s.from,
		Path: envoy.PathRealtime}, x.c.Env.Now())
	if e != nil {
		x.c.Record.RefusedBy = "key/" + x.c.Key.Name
	}
	return e
}

// beginPart records a response that has begun, with its prompt, so that it is charged if the process dies.
func (x *Exchange) beginPart(prompt int64) {
	s := x.session
	s.parts++
	s.begun = s.parts
	r := x.part(&metering.Charge{Used: openai.Usage{PromptTokens: prompt, TotalTokens: prompt}, Estimated: true})
	r.Outcome, r.End = "", time.Time{}
	if x.c.Env.Spool != nil {
		x.c.Env.Spool.Begin(r.Entry())
	}
}

// holdFirst reserves a usual response before the session opens. It has to fit, so sessions that open at once do not
// pass a limit together.
func (x *Exchange) holdFirst(ctx context.Context) *openai.Error {
	s := x.session
	if s.rules == nil || len(s.rules.Rules) == 0 {
		return nil
	}
	wanted := x.account.Wanted(&metering.Demand{Input: 1, Output: -1, Answers: 1}, s.rules)
	for _, t := range x.c.Active.Targets {
		cost, _ := x.account.PriceOf(t.Provider.Vendor.Name, t.Model).Rates.Cost(usage.Used{Usage: s.watch.Expects()})
		wanted[limit.Cost] = max(wanted[limit.Cost], int64(cost))
	}
	wanted = s.only(wanted)
	d := limit.Demand{ID: x.c.Record.ID, Rules: s.rules.Rules, Amounts: wanted}
	decided, err := s.hold.Raise(ctx, x.c.Env.Limits, d, true)
	return x.unheld(wanted, decided, err)
}

// unheld returns the refusal of a hold, or nil.
func (x *Exchange) unheld(wanted limit.Amounts, decided limit.Decision, err error) *openai.Error {
	if err == nil && decided.Refused >= 0 {
		return x.account.RefusedBy(x.session.rules, wanted, decided)
	}
	return x.account.Refusal(wanted, decided, err)
}

// cover reserves what the responses under way, or the next one, need beyond what is reserved. The session ends if
// nothing is left.
func (x *Exchange) cover(ctx context.Context) {
	s := x.session
	if s.rules == nil || len(s.rules.Rules) == 0 || s.ending != nil {
		return
	}
	u := s.watch.Expects()
	if u.PromptTokens <= s.held.PromptTokens && u.CompletionTokens <= s.held.CompletionTokens {
		return
	}
	s.held = u
	cost, _ := x.priceOf(&x.c.Record, true).Rates.Cost(usage.Used{Usage: u})
	wanted := s.only(limit.Amounts{limit.InputTokens: u.PromptTokens, limit.OutputTokens: u.CompletionTokens,
		limit.Tokens: u.PromptTokens + u.CompletionTokens, limit.Cost: int64(cost)})
	d := limit.Demand{ID: x.c.Record.ID, Rules: s.rules.Rules, Amounts: wanted}
	decided, err := s.hold.Raise(ctx, x.c.Env.Limits, d, false)
	s.ending = x.unheld(wanted, decided, err)
}

// only returns the amounts of measures that the session's limits have, none above a whole limit.
func (s *live) only(wanted limit.Amounts) (a limit.Amounts) {
	for i := range s.rules.Rules {
		r := &s.rules.Rules[i]
		most := wanted[r.Measure]
		if !r.Shadow {
			most = min(most, r.Limit)
		}
		if a[r.Measure] == 0 || most < a[r.Measure] {
			a[r.Measure] = most
		}
	}
	return a
}

// chargePart charges a part of the session, under the limits and budgets of the key. The session ends if one of them
// is used up.
func (x *Exchange) chargePart(ctx context.Context, c *metering.Charge) {
	s := x.session
	if c.Transcription || s.begun == 0 {
		s.parts++
	}
	r := x.part(c)
	s.since = r.End
	var held metering.Hold
	if !c.Transcription {
		held, s.hold, s.held, s.begun = s.hold, metering.Hold{}, openai.Usage{}, 0
	}
	if s.rules != nil && len(s.rules.Rules) > 0 {
		r.Rules, r.Settled = s.rules.Names, r.Uses()
		x.useUp(ctx, &r, &held)
	}
	x.put(&r)
}

// useUp settles what is held for a part, and more than that. What is reserved counts at once, also in a store that
// settles later, and the next part may come soon.
func (x *Exchange) useUp(ctx context.Context, r *metering.Record, held *metering.Hold) {
	s := x.session
	more, back := held.Compare(r.Settled)
	decided, err := x.c.Env.Limits.Reserve(ctx, limit.Demand{ID: r.ID, Rules: s.rules.Rules, Amounts: more})
	switch {
	case err != nil:
		s.ending = cmp.Or(s.ending, x.account.Refusal(more, decided, err))
	case decided.Refused >= 0:
		decided.RetryAfter = 0 // it was used, and does not come back
		s.ending = cmp.Or(s.ending, x.account.RefusedBy(s.rules, r.Settled, decided))
	default:
		if held.IsEmpty() {
			decided.Reservation.Settle(r.Settled)
		} else {
			decided.Reservation.Settle(limit.Amounts{})
		}
		if decided.Refused = metering.Exhausted(s.rules.Rules, &decided, back); decided.Refused >= 0 {
			s.ending = cmp.Or(s.ending, x.account.RefusedBy(s.rules, r.Settled, decided))
		}
	}
	if held.IsEmpty() && (err != nil || decided.Reservation == nil) {
		s.owe(r.Settled)
	}
	held.Settle(r.Settled)
}

// chargeRest charges a response that was cut. It is called once, when the session has ended. Only Envoy knows how much
// the client has sent, so the journal completes the record.
func (x *Exchange) chargeRest() {
	s := x.session
	c, open := s.watch.Rest()
	if !open {
		s.hold.Settle(limit.Amounts{})
		return
	}
	if s.begun == 0 {
		s.parts++
	}
	r := x.part(&c)
	r.Outcome = metering.OutcomeTruncated
	if s.rules != nil {
		r.Rules = s.rules.Names
	}
	if s.hold.IsEmpty() {
		s.owe(r.Uses())
	}
	x.c.Record.Rest = &metering.Rest{Record: r, Charge: c, Price: x.priceOf(&r, true), Held: s.hold}
}

func (s *live) owe(used limit.Amounts) {
	for m := range used {
		s.owed[m] += used[m]
	}
}

// part returns the record of a part of the session. Its id is that of the session and a number.
func (x *Exchange) part(c *metering.Charge) metering.Record {
	s, now := x.session, x.c.Env.Now()
	number := s.parts
	if s.begun > 0 && !c.Transcription {
		number = s.begun
	}
	r := metering.Record{
		ID: x.c.Record.ID + "." + strconv.Itoa(number), RequestID: x.c.Record.RequestID, Start: s.since, End: now,
		Method: x.c.Record.Method, Path: x.c.Record.Path, Operation: "realtime/response",
		Subject: x.c.Record.Subject,
		Model:   x.c.Record.Model, Label: x.c.Record.Label, Provider: x.c.Record.Provider, Vendor: x.c.Record.Vendor,
		Upstream: x.c.Record.Upstream, Attempts: 1, Stream: true, Status: x.c.Record.Status, Answered: x.c.Record.Answered,
		Dispatched: true, SentAt: s.since, Usage: c.Used, Estimated: c.Estimated, Outcome: metering.OutcomeFinished,
		Policy: x.c.Record.Policy,
	}
	if c.Failed {
		r.Outcome = metering.OutcomeFailed
	}
	if c.Transcription {
		r.Operation, r.Upstream = "realtime/transcription", c.Model
	}
	x.account.Doubt(&r)
	r.SetCost(x.priceOf(&r, !c.Transcription), nil, "", &metering.Tally{})
	return r
}

// priceOf returns the price of a part. A deployment has a name of its own, so the name that the session tells counts
// too, but for a transcription.
func (x *Exchange) priceOf(r *metering.Record, told bool) metering.Price {
	price := x.account.PriceOf(r.Vendor, r.Upstream)
	if price.Rates == nil && told {
		price = x.account.PriceOf(r.Vendor, x.session.watch.Model())
	}
	return price
}

// put sends the record of a part to the ledger and the journal at once, so that a process that dies loses nothing that
// was billed.
func (x *Exchange) put(r *metering.Record) {
	if x.c.Env.Spool != nil {
		x.c.Env.Spool.End(r.Entry())
	}
	if x.c.Env.Parts != nil {
		x.c.Env.Parts(*r)
	}
}
