package provider

import (
	"net/http"
	"slices"
	"strings"
)

// words are phrases, in lower case, in vendors' messages whose status or code does not say what happened. A
// message has the meaning of the first entry with all its phrases in it.
var words = []struct {
	phrases  []string
	means    int   // the status that says it
	statuses []int // vendors send it with these
}{
	{[]string{"prompt is too long"}, tooLong, mistakes},                            // Anthropic
	{[]string{"input is too long"}, tooLong, mistakes},                             // Bedrock
	{[]string{"exceed context limit"}, tooLong, mistakes},                          // Anthropic
	{[]string{"input tokens exceeded"}, tooLong, mistakes},                         // Bedrock
	{[]string{"too many input tokens"}, tooLong, mistakes},                         // Bedrock
	{[]string{"maximum context length"}, tooLong, mistakes},                        // OpenAI, vLLM, OpenRouter, Mistral
	{[]string{"exceeded max context length"}, tooLong, mistakes},                   // Together
	{[]string{"exceeds the context window"}, tooLong, mistakes},                    // OpenAI
	{[]string{"available context size"}, tooLong, mistakes},                        // llama.cpp
	{[]string{"context is too long"}, tooLong, mistakes},                           // Gemini
	{[]string{"too large for model"}, tooLong, mistakes},                           // Mistral
	{[]string{"all messages is too long"}, tooLong, mistakes},                      // Perplexity
	{[]string{"too many tokens: max tokens must"}, 0, mistakes},                    // Cohere: the answer that was asked for
	{[]string{"too many tokens: "}, tooLong, mistakes},                             // Cohere
	{[]string{"token count", "exceeds the maximum"}, tooLong, mistakes},            // Gemini
	{[]string{"token count", "only supports up to"}, tooLong, mistakes},            // Vertex AI
	{[]string{"credit balance is too low"}, http.StatusPaymentRequired, refusals},  // Anthropic
	{[]string{"insufficient balance"}, http.StatusPaymentRequired, refusals},       // DeepSeek, Moonshot
	{[]string{"insufficient credits"}, http.StatusPaymentRequired, refusals},       // OpenRouter
	{[]string{"used all available credits"}, http.StatusPaymentRequired, refusals}, // xAI
	{[]string{"overloaded"}, http.StatusServiceUnavailable, failures},
}

// tooLong stands for a prompt that is longer than the model takes. No status says that alone.
const tooLong = http.StatusBadRequest

// The statuses of words of a kind. "You exceeded your current quota" is not among the words: Gemini says it of
// each minute.
var (
	mistakes = []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}
	refusals = []int{http.StatusBadRequest, http.StatusForbidden, http.StatusTooManyRequests}
	failures = []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway}
)

// said returns the status that stands for a vendor's words, or the vendor's own, and whether the prompt was too long.
func said(status int, message string) (int, bool) {
	lower := strings.ToLower(message)
	for _, w := range words {
		if slices.Contains(w.statuses, status) && !slices.ContainsFunc(w.phrases,
			func(phrase string) bool { return !strings.Contains(lower, phrase) }) {
			if w.means == 0 {
				return status, false
			}
			return w.means, w.means == tooLong
		}
	}
	return status, false
}

// IsTooLong reports whether a vendor's words for an error with a status say that the prompt is longer than the model
// takes.
func IsTooLong(status int, message string) bool {
	_, long := said(status, message)
	return long
}
