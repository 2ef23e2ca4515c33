package kinds

// A Lack is content of an answer that a client's dialect has no place for.
type Lack struct{ Content, Dialect, Reason string }

// Lacks are all of them. A test writes each content in each dialect, whole and streamed, and compares what is missing
// with this table.
var Lacks = []Lack{
	{"audio", "messages", "the API has no audio, and a request cannot ask for it"},
	{"audio", "responses", "the API has no audio in its answers, and a request cannot ask for it"},
	{"audio", "gemini", "a translated request cannot ask for it"},
	{"further choices", "messages", "a message is one choice"},
	{"further choices", "responses", "a response is one choice"},
	{"log probabilities", "messages", "the API has none"},
	{"signatures of thinking", "responses", "they travel in the call_id of the next call"},
	{"signatures of thinking", "gemini", "they travel in the id of the next call"},
	{"thought signatures of Google", "messages", "they travel in the id of the call"},
	{"thought signatures of Google", "responses", "they travel in the call_id of the call"},
	{"tokens written to a cache", "gemini", "Google bills no writes by token"},
	{"the service tier", "gemini", "the names of Google's tiers are its own"},
}
