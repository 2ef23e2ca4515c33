package checks

import (
	"context"
	"math"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/limit"
)

// mostDescriptors bounds the descriptors of a request.
const mostDescriptors = 16

// ShouldRateLimit implements the rate limit service. The domain is what counts, as in a RateLimit: requests or tokens.
// The entries of a descriptor are those of RateLimits: key (an id, or what the client has sent), user, organization,
// project, model and provider. They count under all limits that a request with them counts under. If one of the
// descriptors is refused, none counts.
func (c *Checks) ShouldRateLimit(ctx context.Context, in *rlsv3.RateLimitRequest) (out *rlsv3.RateLimitResponse,
	err error) {
	defer func() {
		c.counted("ratelimit", out.GetOverallCode() == rlsv3.RateLimitResponse_OK, err)
	}()
	measure, ok := limit.MeasureOf(in.GetDomain())
	if !ok || measure == limit.Concurrency {
		return nil, status.Errorf(codes.InvalidArgument, "the domain must be requests, tokens, input_tokens or output_tokens, and not %q",
			in.GetDomain())
	}
	if len(in.GetDescriptors()) > mostDescriptors {
		return nil, status.Errorf(codes.InvalidArgument, "there are more than %d descriptors", mostDescriptors)
	}
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	out = &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK}
	var taken []taken
	for _, d := range in.GetDescriptors() {
		t, err := c.take(ctx, config, measure, hitsOf(in, d), d)
		if err != nil {
			settle(taken, false)
			return nil, err
		}
		taken = append(taken, t)
		out.Statuses = append(out.Statuses, t.status())
		out.ResponseHeadersToAdd = t.headers()
		if t.refusal != nil {
			out.OverallCode, out.RawBody = rlsv3.RateLimitResponse_OVER_LIMIT, t.refusal.AppendJSON(nil)
			break
		}
	}
	settle(taken, out.GetOverallCode() == rlsv3.RateLimitResponse_OK)
	return out, nil
}

// hitsOf returns how much a descriptor counts. 0 only asks.
func hitsOf(in *rlsv3.RateLimitRequest, d *commonv3.RateLimitDescriptor) int64 {
	switch {
	case d.GetHitsAddend() != nil:
		return int64(min(d.GetHitsAddend().GetValue(), math.MaxInt64))
	case in.GetHitsAddend() == 0: // it is not optional in the protocol
		return 1
	}
	return int64(in.GetHitsAddend())
}

// A taken is what the limits have decided about a descriptor.
type taken struct {
	rules   *access.Rules
	wanted  limit.Amounts
	decided limit.Decision
	refusal *openai.Error
}

// settle counts what was admitted, or gives it back.
func settle(all []taken, counts bool) {
	for _, t := range all {
		switch {
		case t.decided.Reservation == nil:
		case counts:
			t.decided.Reservation.Settle(t.wanted)
		default:
			t.decided.Reservation.Settle(limit.Amounts{})
		}
	}
}

// take asks the limits for a descriptor.
func (c *Checks) take(ctx context.Context, config *call.Derived, m limit.Measure, hits int64,
	d *commonv3.RateLimitDescriptor) (t taken, err error) {
	e, err := entriesOf(d)
	if err != nil {
		return t, err
	}
	t.decided.Refused = -1
	var client *access.Client
	if client, t.refusal = c.client(&config.Config.Directory, e); client == nil {
		return t, nil
	}
	all := config.Rules.Rules(client, e["user"], e["model"], e["provider"])
	t.rules = all.For(func(cel.Program) bool { return true }).Only(m) // an expression has no request to look at
	t.wanted[m] = hits
	if len(t.rules.Rules) == 0 {
		return t, nil
	}
	t.decided, err = c.options.Env.Limits.Reserve(ctx, limit.Demand{ID: c.options.Env.NewID(), Rules: t.rules.Rules,
		Amounts: t.wanted})
	if err != nil {
		return t, status.Error(codes.Unavailable, err.Error())
	}
	if i := t.decided.Refused; i >= 0 {
		by := access.Refusal{Rule: &t.rules.Rules[i], Of: &t.rules.Scopes[i], Model: e["model"],
			Organization: client.Organization, Wanted: hits, Left: t.decided.States[i].Remaining, Now: c.options.Env.Now()}
		t.refusal = by.RateError(t.decided.RetryAfter)
	}
	return t, nil
}

// entriesOf returns the entries of a descriptor.
func entriesOf(d *commonv3.RateLimitDescriptor) (map[string]string, error) {
	all := map[string]string{}
	for _, e := range d.GetEntries() {
		if _, twice := all[e.GetKey()]; twice || !slices.Contains(configv1.RateLimitKeys(), e.GetKey()) {
			return nil, status.Errorf(codes.InvalidArgument, "the entries of a descriptor are %s, each once, and not %q",
				strings.Join(configv1.RateLimitKeys(), ", "), e.GetKey())
		}
		all[e.GetKey()] = e.GetValue()
	}
	return all, nil
}

// client returns whose limits a descriptor counts under. A key that is not valid is refused.
func (c *Checks) client(d *access.Directory, e map[string]string) (*access.Client, *openai.Error) {
	given := e["key"]
	if given == "" {
		client := &access.Client{Organization: e["organization"]}
		if organization, project, ok := strings.Cut(e["project"], "/"); ok {
			client.Organization, client.Project = organization, project
		}
		return client, nil
	}
	if client := d.Keyring.ByName(given); client != nil {
		return client, nil
	}
	if !auth.IsBearer(given) {
		given = "Bearer " + given
	}
	client, refusal := d.Admit(&access.Caller{Authorization: given}, c.options.Env.Now())
	if client != nil {
		return client, nil // this service counts, and does not decide what a key may be used for
	}
	return nil, refusal
}

var units = [...]rlsv3.RateLimitResponse_RateLimit_Unit{
	limit.Second: rlsv3.RateLimitResponse_RateLimit_SECOND, limit.Minute: rlsv3.RateLimitResponse_RateLimit_MINUTE,
	limit.Hour: rlsv3.RateLimitResponse_RateLimit_HOUR, limit.Day: rlsv3.RateLimitResponse_RateLimit_DAY,
}

// status reports the limit that refused, or the one with the least left.
func (t *taken) status() *rlsv3.RateLimitResponse_DescriptorStatus {
	s := &rlsv3.RateLimitResponse_DescriptorStatus{Code: rlsv3.RateLimitResponse_OK}
	if t.refusal != nil {
		s.Code = rlsv3.RateLimitResponse_OVER_LIMIT
	}
	at := t.decided.Refused
	for i := range t.decided.States {
		if t.decided.Refused < 0 && !t.rules.Rules[i].Shadow &&
			(at < 0 || t.decided.States[i].Remaining < t.decided.States[at].Remaining) {
			at = i
		}
	}
	if at < 0 {
		return s
	}
	rule, state := &t.rules.Rules[at], t.decided.States[at]
	s.CurrentLimit = &rlsv3.RateLimitResponse_RateLimit{RequestsPerUnit: clamped(rule.Limit), Unit: units[rule.Window]}
	if at < len(t.rules.Names) {
		s.CurrentLimit.Name = t.rules.Names[at]
	}
	s.LimitRemaining, s.DurationUntilReset = clamped(state.Remaining), durationpb.New(state.Reset)
	return s
}

func clamped(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// headers returns what the client gets: its limits, and the error's headers.
func (t *taken) headers() (all []*corev3.HeaderValue) {
	if t.rules != nil && len(t.decided.States) > 0 {
		for _, h := range t.rules.Headers(t.decided) {
			all = append(all, &corev3.HeaderValue{Key: h.Name, Value: h.Value})
		}
	}
	if t.refusal != nil {
		for _, h := range errorHeaders(t.refusal) {
			all = append(all, h.GetHeader())
		}
	}
	return all
}
