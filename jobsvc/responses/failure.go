package responses

import (
	"time"

	"github.com/modelgate/modelgate/jobsvc/job"
)

// serverError is OpenAI's code in a response that has failed.
const serverError = "server_error"

// A failure is why there is no response, in the words of its object.
type failure struct {
	code, message string
	again         bool          // asking again may help
	wait          time.Duration // that was asked for before that
}

// Error implements error.
func (f *failure) Error() string { return f.code + ": " + f.message }

// failed returns a response object that has failed.
func (f *failure) failed(object []byte) []byte {
	return replaced(object, set("status", text(string(job.ResponseFailed))),
		set("error", replaced(nil, set("code", text(f.code)), set("message", text(f.message)))))
}

// Failures of the gateway itself.
var (
	unasked = &failure{serverError, "The gateway could not ask for the response.", true, time.Second}
	late    = &failure{code: serverError, message: "The response was not made in time."}
	cut     = &failure{code: serverError, message: "The provider's answer ended before it was complete."}
	unread  = &failure{code: serverError, message: "The provider's answer is no response, or too large."}
	crowded = &failure{code: serverError, message: "The gateway had no memory for the provider's answer."}
	lostJob = &failure{code: serverError, message: "The stored request is missing or damaged."}
	doomed  = &failure{code: serverError,
		message: "The gateway's processes ended several times while they made this response."}
	unstored = &failure{code: serverError,
		message: "The answer is complete, but the gateway could not store it. Please retry."}
	begunAgain = &failure{code: serverError,
		message: "The answer is being made again, because the process that made it has ended. Stream it from the beginning, or retrieve it when it is complete."}
	eventsAway = &failure{code: serverError,
		message: "The events of the response cannot be read at the moment. Resume with 'starting_after'."}
)
