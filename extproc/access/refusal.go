package access

import (
	"fmt"
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/usage"
)

// A Refusal describes the rule that refuses a request, for the client.
type Refusal struct {
	Rule                *limit.Rule
	Of                  *Scope
	Model, Organization string
	Wanted, Left        int64
	Now                 time.Time
}

// RateError returns the error of a rate limit, with OpenAI's wording, which clients parse. After is the time to wait,
// or 0 if waiting does not help.
func (r *Refusal) RateError(after time.Duration) *openai.Error {
	e := openai.CodeRateLimitExceeded.New("")
	if r.Rule.Measure != limit.Requests && r.Rule.Measure != limit.Concurrency {
		e.Type = openai.TypeTokens
	}
	on := "on " + measureName(r.Rule)
	if r.Organization != "" {
		on = "in organization " + r.Organization + " " + on
	}
	if r.Model != "" {
		on = "for " + r.Model + " " + on
	}
	if after <= 0 { // also if only a part of the limit is available in this process
		e.NoRetry = true
		if e.Type == openai.TypeRequests {
			e.Message = fmt.Sprintf("No request is admitted %s: Limit %d. %s", on, r.Rule.Limit, r.owner())
			return e
		}
		e.Message = fmt.Sprintf("Request too large %s: Limit %d, Requested %d. The input or output tokens must be reduced in order to run successfully. %s",
			on, r.Rule.Limit, r.Wanted, r.owner())
		return e
	}
	after = ceilMillisecond(max(after, time.Millisecond))
	e.RetryAfter = after
	e.Message = fmt.Sprintf("Rate limit reached %s: Limit %d, Used %d, Requested %d. Please try again in %s. %s",
		on, r.Rule.Limit, r.Rule.Limit-r.Left, r.Wanted, after, r.owner())
	return e
}

// ceilMillisecond rounds up, so that a client that waits for this time is admitted.
func ceilMillisecond(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// BudgetError returns the error of a budget that is renewed after reset. After is the time to wait. It is shorter than
// reset if the rest of the budget is only reserved by running requests.
func (r *Refusal) BudgetError(reset, after time.Duration) *openai.Error {
	period := "month"
	if r.Rule.Window == limit.CalendarDay {
		period = "day"
	}
	if after > 0 && after < reset {
		return openai.CodeRateLimitExceeded.New("Requests that run have reserved what is left of the budget of $%s a %s of the %s: $%s is free, and the request may cost $%s. Please try again in %s.",
			usage.Nano(r.Rule.Limit), period, r.subject(), usage.Nano(r.Left), usage.Nano(r.Wanted), after).After(after)
	}
	next := fmt.Sprintf("The next %s begins at %s.", period,
		r.Now.Add(reset).UTC().Round(time.Second).Format(time.RFC3339))
	if r.Wanted > r.Rule.Limit {
		next = "That is more than the whole of it."
	}
	return openai.CodeInsufficientQuota.New("You exceeded your current quota, please check your plan and billing details: of the budget of $%s a %s of the %s, $%s is left, and the request may cost $%s. %s",
		usage.Nano(r.Rule.Limit), period, r.subject(), usage.Nano(r.Left), usage.Nano(r.Wanted), next).Final()
}

// By names the rule, such as "key/key_1 limit requests per minute" or "budget organization/acme day".
func (r *Refusal) By() string { return nameOf(*r.Of, r.Rule) }

// nameOf returns the name of a rule of an object.
func nameOf(scope Scope, rule *limit.Rule) string {
	of := scope.Kind + "/" + scope.Name
	switch {
	case rule.Measure == limit.Concurrency:
		return of + " limit concurrent requests"
	case rule.Measure != limit.Cost:
		window := [...]string{limit.Second: "second", limit.Minute: "minute", limit.Hour: "hour",
			limit.Day: "day"}[rule.Window]
		return of + " limit " + strings.ReplaceAll(rule.Measure.String(), "_", " ") + " per " + window
	case rule.Window == limit.CalendarDay:
		return "budget " + of + " day"
	}
	return "budget " + of + " month"
}

// owner describes the owner of the limit.
func (r *Refusal) owner() string {
	if r.Of.Kind == scopeRateLimit {
		return "The limit is " + r.Of.Name + " of the gateway."
	}
	return "The limit is of the " + r.subject() + "."
}

func (r *Refusal) subject() string { return r.Of.Kind + " " + r.Of.Name }

// measureName names what a limit counts, with OpenAI's abbreviation if there is one.
func measureName(r *limit.Rule) string {
	if r.Measure == limit.Concurrency {
		return "concurrent requests"
	}
	what := strings.ReplaceAll(r.Measure.String(), "_", " ")
	window := [...]string{limit.Second: "sec", limit.Minute: "min", limit.Hour: "hour", limit.Day: "day"}[r.Window]
	name := what + " per " + window
	if r.Measure == limit.Requests || r.Measure == limit.Tokens {
		name += " (" + strings.ToUpper(what[:1]+"p"+window[:1]) + ")"
	}
	return name
}
