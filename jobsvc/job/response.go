package job

// A ResponseStatus is the state of a stored response, with OpenAI's name.
type ResponseStatus string

// States of a response. One that is not made in the background is stored when it is over.
const (
	ResponseQueued     ResponseStatus = "queued"      // a worker will take it
	ResponseInProgress ResponseStatus = "in_progress" // a worker asks a provider
	ResponseCompleted  ResponseStatus = "completed"
	ResponseIncomplete ResponseStatus = "incomplete" // the provider has stopped it early
	ResponseFailed     ResponseStatus = "failed"
	ResponseCancelled  ResponseStatus = "cancelled" // by the client
)

// A ResponseEvent is an event in the life of a background response.
type ResponseEvent string

// Events of a background response.
const (
	ResponseTaken    ResponseEvent = "taken"    // by a worker, also by another one after the first has died
	ResponseAnswered ResponseEvent = "answered" // completely
	ResponseStopped  ResponseEvent = "stopped"  // early, by the provider
	ResponseBroken   ResponseEvent = "broken"   // there is no answer
	ResponseCancel   ResponseEvent = "cancel"   // the client has asked to cancel
)

// responses has all transitions of a background response.
var responses = map[ResponseStatus]map[ResponseEvent]ResponseStatus{
	ResponseQueued: {ResponseTaken: ResponseInProgress, ResponseCancel: ResponseCancelled},
	ResponseInProgress: {
		ResponseTaken: ResponseInProgress, ResponseAnswered: ResponseCompleted, ResponseStopped: ResponseIncomplete,
		ResponseBroken: ResponseFailed, ResponseCancel: ResponseCancelled,
	},
}

// Next returns the state after an event. It returns false if the state has no transition for the event.
func (s ResponseStatus) Next(e ResponseEvent) (ResponseStatus, bool) {
	next, ok := responses[s][e]
	return next, ok
}

// Over reports whether the state is final.
func (s ResponseStatus) Over() bool { return len(responses[s]) == 0 }
