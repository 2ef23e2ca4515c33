package realtime

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
	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/answer"
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

// A Session is a session of the Realtime API.
type Session struct {
	c       *call.Call
	account *account.Account
	answer  *answer.Answer

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

	release func()        // gives its place back; nil: it has none
	failed  bool          // the answer is an error
	ending  *openai.Error // why the gateway ends the session; it waits for the end of a frame
	late    bool          // it has waited for a tick
}

// Headers handles the answer to the handshake.
func (s *Session) Headers(h call.Headers, f call.Facts, end bool) call.Reply {
	if f.CodeDetails == notUpgraded {
		s.answer.Note(h, f)
		return s.answer.FailUpstream(provider.ErrNotAnAnswer, "mg_not_upgraded")
	}
	status, own := s.answer.Begin(h, f)
	if own != nil {
		return *own
	}
	err := s.answer.Take(h, f)
	s.c.Active.Release()
	switch {
	case err != nil:
		return s.answer.FailUpstream(err, "mg_unplanned_answer")
	case status == http.StatusSwitchingProtocols:
		s.c.Env.Cooldown.Served(s.c.Provider, s.c.Record.Start)
		return s.opened(h)
	case status < 200 || status > 299:
		s.failed = true
		return s.answer.ErrorHeaders(h, status, end)
	}
	return s.answer.FailUpstream(provider.ErrNotAnAnswer, "mg_not_upgraded")
}

// opened handles the answer of a provider that has upgraded the connection.
func (s *Session) opened(h call.Headers) call.Reply {
	s.account.Begun, s.account.Refused = true, false
	s.since = s.c.Env.Now()
	reply := call.Reply{Set: s.answer.Own, Remove: s.c.Removed[:0], Patience: sessionTick, Log: true}
	for i := range h {
		if name := h[i].Name; name[0] != ':' && !forwardedFromSession[name] {
			reply.Remove = append(reply.Remove, name)
		}
	}
	// A browser fails if none of the protocols that it has offered is chosen.
	if offered := s.offered; len(offered) > 0 {
		chosen := h.Get(call.HeaderProtocol)
		if !slices.Contains(offered, chosen) {
			chosen = offered[0]
		}
		reply.Remove = slices.DeleteFunc(reply.Remove, func(name string) bool { return name == call.HeaderProtocol })
		reply.Set = append(reply.Set, call.Header{Name: call.HeaderProtocol, Value: chosen})
	}
	return reply
}

// Body passes a piece of the provider's frames, and charges what they report. An error comes whole.
func (s *Session) Body(ctx context.Context, piece []byte, end bool) call.Reply {
	if s.failed {
		return s.answer.ReplaceByError(s.answer.Error(piece))
	}
	charges, err := s.watch.Feed(piece)
	for i := range charges {
		s.chargePart(ctx, &charges[i])
	}
	if prompt, open := s.watch.Open(); open && s.begun == 0 {
		s.beginPart(prompt)
	}
	s.cover(ctx)
	s.judge()
	status, closed := s.watch.Closed()
	switch {
	case err != nil:
		s.c.Record.Error = pipeline.ClientError(provider.ErrNotAnAnswer)
		return s.endSession(metering.OutcomeFailed, nil)
	case closed:
		s.providerCloses(status)
	case end:
		s.c.Record.Outcome = metering.OutcomeTruncated
		s.c.Finish()
	case s.ending != nil && s.watch.Boundary() >= 0:
		return s.refuseSession(piece[:s.watch.Boundary()])
	}
	return call.Reply{}
}

// judge ends the session if it refers to what the provider keeps for all tenants. The client's frames pass unread: it
// is what the provider says of them that is judged.
func (s *Session) judge() {
	member := s.watch.Kept()
	if member != "" && s.ending == nil && !s.c.Config.MayRefer(s.c.Key, s.c.Provider.Config) {
		s.ending = call.ReferenceNotAllowed(member)
	}
}

// providerCloses ends the exchange at the provider's close frame. The connection lasts a little longer.
func (s *Session) providerCloses(status uint16) {
	switch status {
	case websocket.StatusNormal, websocket.StatusGoingAway, websocket.StatusNone:
		s.c.Record.Outcome = metering.OutcomeFinished
	default:
		s.c.Record.Outcome = metering.OutcomeFailed
		if reported := s.watch.Failure(); reported != "" {
			s.c.Record.Error = s.c.Provider.Scrub(s.c.Provider.Vendor.DecodeError(http.StatusBadGateway, http.Header{},
				[]byte(`{"error":`+reported+`}`)))
		} else {
			s.c.Record.Error = pipeline.ClientError(provider.ErrTruncated)
		}
	}
	s.c.Finish()
}

// refuseSession ends the session with a close frame after frames that are complete. The reason is the error's code.
// Within a frame, the connection is closed without one.
func (s *Session) refuseSession(frames []byte) call.Reply {
	e, last := s.ending, []byte(nil)
	if s.c.Record.Error = e; frames != nil {
		last = websocket.AppendClose(slices.Clone(frames), websocket.StatusPolicyViolation, cmp.Or(string(e.Code), e.Type))
	}
	return s.endSession(metering.OutcomeRejected, last)
}

// endSession ends the exchange, and closes the connection after the last bytes.
func (s *Session) endSession(o metering.Outcome, last []byte) call.Reply {
	s.c.Record.Outcome = o
	s.c.Finish()
	return call.Reply{ReplaceBody: true, Body: last, End: true}
}

// Release ends the session if its key may not be used any more. It reports whether it did.
func (s *Session) Release() (call.Reply, bool) {
	if s.ending == nil {
		s.ending = s.revoked()
	}
	switch {
	case s.ending == nil:
		return call.Reply{Patience: sessionTick}, false
	case !s.watch.AtBoundary() && !s.late:
		s.late = true
		return call.Reply{Patience: sessionTick}, false
	}
	var frames []byte
	if s.watch.AtBoundary() {
		frames = []byte{}
	}
	return s.refuseSession(frames), true
}

// revoked checks the client's key against the current configuration.
func (s *Session) revoked() *openai.Error {
	if s.c.Env.Current == nil {
		return nil
	}
	current := s.c.Env.Current()
	if current == nil {
		return nil
	}
	_, e := current.Directory.Admit(&access.Caller{Authorization: s.key.Reveal(), Address: s.from,
		Path: envoy.PathRealtime}, s.c.Env.Now())
	if e != nil {
		s.c.Record.RefusedBy = "key/" + s.c.Key.Name
	}
	return e
}

// beginPart records a response that has begun, with its prompt, so that it is charged if the process dies.
func (s *Session) beginPart(prompt int64) {
	s.parts++
	s.begun = s.parts
	r := s.part(&metering.Charge{Used: openai.Usage{PromptTokens: prompt, TotalTokens: prompt}, Estimated: true})
	r.Outcome, r.End = "", time.Time{}
	if s.c.Env.Spool != nil {
		s.c.Env.Spool.Begin(r.Entry())
	}
}

// reserve reserves a usual response before the session opens. It has to fit, so sessions that open at once do not pass
// a limit together.
func (s *Session) reserve(ctx context.Context) *openai.Error {
	if s.rules == nil || len(s.rules.Rules) == 0 {
		return nil
	}
	wanted := s.account.Wanted(&metering.Demand{Input: 1, Output: -1, Answers: 1}, s.rules)
	for _, t := range s.c.Active.Targets {
		rates := s.account.PriceOf(t.Provider.Vendor.Name, t.Model).Rates
		cost, _ := rates.Cost(usage.Used{Usage: s.watch.Expects()})
		wanted[limit.Cost] = max(wanted[limit.Cost], int64(cost))
	}
	wanted = s.only(wanted)
	demand := limit.Demand{ID: s.c.Record.ID, Rules: s.rules.Rules, Amounts: wanted}
	decided, err := s.hold.Raise(ctx, s.c.Env.Limits, demand, true)
	return s.unheld(wanted, decided, err)
}

// unheld returns the refusal of a hold, or nil.
func (s *Session) unheld(wanted limit.Amounts, decided limit.Decision, err error) *openai.Error {
	if err == nil && decided.Refused >= 0 {
		return s.account.RefusedBy(s.rules, wanted, decided)
	}
	return s.account.Refusal(wanted, decided, err)
}

// cover reserves what the responses under way, or the next one, need beyond what is reserved. The session ends if
// nothing is left.
func (s *Session) cover(ctx context.Context) {
	if s.rules == nil || len(s.rules.Rules) == 0 || s.ending != nil {
		return
	}
	u := s.watch.Expects()
	if u.PromptTokens <= s.held.PromptTokens && u.CompletionTokens <= s.held.CompletionTokens {
		return
	}
	s.held = u
	cost, _ := s.priceOf(&s.c.Record, true).Rates.Cost(usage.Used{Usage: u})
	wanted := s.only(limit.Amounts{limit.InputTokens: u.PromptTokens, limit.OutputTokens: u.CompletionTokens,
		limit.Tokens: u.PromptTokens + u.CompletionTokens, limit.Cost: int64(cost)})
	demand := limit.Demand{ID: s.c.Record.ID, Rules: s.rules.Rules, Amounts: wanted}
	decided, err := s.hold.Raise(ctx, s.c.Env.Limits, demand, false)
	s.ending = s.unheld(wanted, decided, err)
}

// only returns the amounts of measures that the session's limits have, none above a whole limit.
func (s *Session) only(wanted limit.Amounts) (a limit.Amounts) {
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
func (s *Session) chargePart(ctx context.Context, c *metering.Charge) {
	if c.Transcription || s.begun == 0 {
		s.parts++
	}
	r := s.part(c)
	s.since = r.End
	var held metering.Hold
	if !c.Transcription {
		held, s.hold, s.held, s.begun = s.hold, metering.Hold{}, openai.Usage{}, 0
	}
	if s.rules != nil && len(s.rules.Rules) > 0 {
		r.Rules, r.Settled = s.rules.Names, r.Uses()
		s.useUp(ctx, &r, &held)
	}
	s.put(&r)
}

// useUp settles what is held for a part, and more than that. What is reserved counts at once, also in a store that
// settles later, and the next part may come soon.
func (s *Session) useUp(ctx context.Context, r *metering.Record, held *metering.Hold) {
	more, back := held.Compare(r.Settled)
	decided, err := s.c.Env.Limits.Reserve(ctx, limit.Demand{ID: r.ID, Rules: s.rules.Rules, Amounts: more})
	switch {
	case err != nil:
		s.ending = cmp.Or(s.ending, s.account.Refusal(more, decided, err))
	case decided.Refused >= 0:
		decided.RetryAfter = 0 // it was used, and does not come back
		s.ending = cmp.Or(s.ending, s.account.RefusedBy(s.rules, r.Settled, decided))
	default:
		if held.IsEmpty() {
			decided.Reservation.Settle(r.Settled)
		} else {
			decided.Reservation.Settle(limit.Amounts{})
		}
		if !held.IsEmpty() {
			s.hold.Follows(s.rules.Rules, &decided, back)
		}
		if decided.Refused = metering.Exhausted(s.rules.Rules, &decided, back); decided.Refused >= 0 {
			s.ending = cmp.Or(s.ending, s.account.RefusedBy(s.rules, r.Settled, decided))
		}
	}
	if held.IsEmpty() && (err != nil || decided.Reservation == nil) {
		s.owe(r.Settled)
	}
	held.Settle(r.Settled)
}

// End charges a response that was cut. It is called once, when the session has ended. Only Envoy knows how much
// the client has sent, so the journal completes the record.
func (s *Session) End() {
	defer s.account.Owe(&s.owed)
	if s.release != nil {
		s.release()
	}
	c, open := s.watch.Rest()
	if !open {
		s.hold.Settle(limit.Amounts{})
		return
	}
	if s.begun == 0 {
		s.parts++
	}
	r := s.part(&c)
	r.Outcome = metering.OutcomeTruncated
	if s.rules != nil {
		r.Rules = s.rules.Names
	}
	if s.hold.IsEmpty() {
		s.owe(r.Uses())
	}
	s.c.Record.Rest = &metering.Rest{Record: r, Charge: c, Price: s.priceOf(&r, true), Held: s.hold}
}

func (s *Session) owe(used limit.Amounts) {
	for m := range used {
		s.owed[m] += used[m]
	}
}

// part returns the record of a part of the session. Its id is the session's id and a number.
func (s *Session) part(c *metering.Charge) metering.Record {
	now := s.c.Env.Now()
	number := s.parts
	if s.begun > 0 && !c.Transcription {
		number = s.begun
	}
	r := metering.Record{
		ID: s.c.Record.ID + "." + strconv.Itoa(number), RequestID: s.c.Record.RequestID, Start: s.since, End: now,
		Method: s.c.Record.Method, Path: s.c.Record.Path, Operation: "realtime/response",
		Subject: s.c.Record.Subject,
		Model:   s.c.Record.Model, Label: s.c.Record.Label, Provider: s.c.Record.Provider, Vendor: s.c.Record.Vendor,
		Upstream: s.c.Record.Upstream, Attempts: 1, Stream: true, Status: s.c.Record.Status, Answered: s.c.Record.Answered,
		Dispatched: true, SentAt: s.since, Usage: c.Used, Estimated: c.Estimated, Outcome: metering.OutcomeFinished,
		Policy: s.c.Record.Policy,
	}
	if c.Failed {
		r.Outcome = metering.OutcomeFailed
	}
	if c.Transcription {
		r.Operation, r.Upstream = "realtime/transcription", c.Model
	}
	s.account.Doubt(&r)
	r.SetCost(s.priceOf(&r, !c.Transcription), nil, "", &metering.Tally{})
	return r
}

// priceOf returns the price of a part. A deployment has a name of its own, so the name that the session tells counts
// too, but for a transcription.
func (s *Session) priceOf(r *metering.Record, told bool) metering.Price {
	price := s.account.PriceOf(r.Vendor, r.Upstream)
	if price.Rates == nil && told {
		price = s.account.PriceOf(r.Vendor, s.watch.Model())
	}
	return price
}

// put sends the record of a part to the ledger and the journal at once, so that a process that dies loses nothing that
// was billed.
func (s *Session) put(r *metering.Record) {
	if s.c.Env.Spool != nil {
		s.c.Env.Spool.End(r.Entry())
	}
	if s.c.Env.Parts != nil {
		s.c.Env.Parts(*r)
	}
}
