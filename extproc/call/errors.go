package call

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// UnknownURL is the error of a request for a path that does not exist.
func UnknownURL(method, path string) *openai.Error {
	return openai.UnknownURL(telemetry.Clip(method), telemetry.Clip(path))
}

// WrongMethod is the error of a request with a method that its path does not have.
func WrongMethod(method, path string, allowed ...string) *openai.Error {
	return openai.WrongMethod(telemetry.Clip(method), telemetry.Clip(path), allowed...)
}

// Overloaded is the error of a request for which no provider has a free place.
func Overloaded() *openai.Error {
	return openai.CodeServerIsOverloaded.New("The providers of this model have as many requests as they take at the moment. Please try again later.").After(time.Second)
}

// OverCapacity is the error of a request that the process cannot take at the moment.
func OverCapacity(message string) *openai.Error {
	return openai.CodeServerIsOverloaded.New("%s", message).After(time.Second)
}

// IsRead reports whether a method only reads.
func IsRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// ReferenceNotAllowed is the error of a request that refers to what the provider keeps for all tenants.
func ReferenceNotAllowed(member string) *openai.Error {
	return openai.CodeReferenceNotAllowed.On(member, "'%s' refers to something that the provider keeps under an account that others share. The gateway does not know whose it is. Send the content in its place.",
		member).Final()
}

// ContentBlocked is the error of a request that a rule refuses. It does not say what was found. Member, if not empty,
// is the one in which the rule would mask something that nothing can stand for.
func ContentBlocked(rule, member string) *openai.Error {
	e := openai.CodeContentBlocked.New("The guardrail '%s' does not allow the content of this request.",
		rule).Final()
	if member != "" {
		e.Message = "The guardrail '" + rule + "' has to mask a text in a member '" + member +
			"' of this request, where no placeholder can stand."
	}
	return e
}

// Reasons why the gateway loses an answer.
var (
	ErrNoRoom         = openai.CodeServerIsOverloaded.New("The gateway holds as many answers as it can at the moment. The provider's answer is lost.")
	ErrAnswerTooLarge = openai.CodeUpstreamResponseTooLarge.New("The provider's answer is larger than the gateway can hold.")
)

// ErrLeft ends the wait for checkers of an answer whose client has left.
var ErrLeft = errors.New("the client has left")

// HasLeft reports whether the wait or the work on an answer has ended because its client has left.
func HasLeft(err error) bool {
	return errors.Is(err, ErrLeft) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
