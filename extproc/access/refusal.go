package access

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/usage"
)

// A Refusal is what a client is told of the rule that keeps it out.
type Refusal struct {
	Rule                *limit.Rule
	Of                  *Scope
	Model, Organization string
	Wanted, Left        int64
	Now                 time.Time
}

// Rate returns the error of a limit, in OpenAI's words, which clients read. After is how long to wait, 0 where waiting
// does not help.
func (r *Refusal) Rate(after time.Duration) *openai.Error {
	e := &openai.Error{Status: http.StatusTooManyRequests, Type: openai.TypeTokens, Code: openai.CodeRateLimitExceeded}
	if r.Rule.Measure == limit.Requests || r.Rule.Measure == limit.Concurrency {
		e.Type = openai.TypeRequests
	}
	on := "on " + nameOf(r.Rule)
	if r.Organization != "" {
		on = "in organization " + r.Organization + " " + on
	}
	if r.Model != "" {
		on = "for " + r.Model + " " + on
	}
	if after <= 0 { // also where only a part of the limit is admitted here
		e.NoRetry = true
		if e.Type == openai.TypeRequests {
			e.Message = fmt.Sprintf("No request is admitted %s: Limit %d. %s", on, r.Rule.Limit, r.whose())
			return e
		}
		e.Message = fmt.Sprintf("Request too large %s: Limit %d, Requested %d. The input or output tokens must be reduced in order to run successfully. %s",
			on, r.Rule.Limit, r.Wanted, r.whose())
		return e
	}
	after = upToMillisecond(max(after, time.Millisecond))
	e.RetryAfter = after
	e.Message = fmt.Sprintf("Rate limit reached %s: Limit %d, Used %d, Requested %d. Please try again in %s. %s",
		on, r.Rule.Limit, r.Rule.Limit-r.Left, r.Wanted, after, r.whose())
	return e
}

// upToMillisecond rounds up: who waits as long as he is told must be let in.
func upToMillisecond(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// Budget returns the error of a budget, which is whole again after reset. After is how long to wait: less than that
// where what is left is only reserved, by requests that run.
func (r *Refusal) Budget(reset, after time.Duration) *openai.Error {
	period := "month"
	if r.Rule.Window == limit.CalendarDay {
		period = "day"
	}
	if after > 0 && after < reset {
		return &openai.Error{Status: http.StatusTooManyRequests, Type: openai.TypeRequests,
			Code: openai.CodeRateLimitExceeded, RetryAfter: after,
			Message: fmt.Sprintf("Requests that run have reserved what is left of the budget of $%s a %s of the %s: $%s is free, and the request may cost $%s. Please try again in %s.",
				usage.Nano(r.Rule.Limit), period, r.subject(), usage.Nano(r.Left), usage.Nano(r.Wanted), after)}
	}
	next := fmt.Sprintf("The next %s begins at %s.", period,
		r.Now.Add(reset).UTC().Round(time.Second).Format(time.RFC3339))
	if r.Wanted > r.Rule.Limit {
		next = "That is more than the whole of it."
	}
	return &openai.Error{Status: http.StatusTooManyRequests, Type: openai.TypeInsufficientQuota,
		Code: openai.CodeInsufficientQuota, NoRetry: true,
		Message: fmt.Sprintf("You exceeded your current quota, please check your plan and billing details: of the budget of $%s a %s of the %s, $%s is left, and the request may cost $%s. %s",
			usage.Nano(r.Rule.Limit), period, r.subject(), usage.Nano(r.Left), usage.Nano(r.Wanted), next)}
}

// whose says whose the limit is.
func (r *Refusal) whose() string {
	if r.Of.Kind == scopeRateLimit {
		return "The limit is " + r.Of.Name + " of the gateway."
	}
	return "The limit is of the " + r.subject() + "."
}

func (r *Refusal) subject() string { return r.Of.Kind + " " + r.Of.Name }

// nameOf names what a limit is on, with OpenAI's abbreviation where there is one.
func nameOf(r *limit.Rule) string {
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
