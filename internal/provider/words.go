package provider

import (
	"net/http"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
)

// words are phrases, in lower case, in vendors' messages whose status or code does not say what happened. A
// message has the meaning of the first entry with all its phrases in it.
var words = []struct {
	phrases  []string
	means    openai.Code // "" is what the status says
	statuses []int       // vendors send it with these
}{
	{[]string{"prompt is too long"}, tooLong, mistakes},                          // Anthropic, Fireworks
	{[]string{"input is too long"}, tooLong, mistakes},                           // Bedrock
	{[]string{"exceed context limit"}, tooLong, mistakes},                        // Anthropic
	{[]string{"input tokens exceeded"}, tooLong, mistakes},                       // Bedrock
	{[]string{"too many input tokens"}, tooLong, mistakes},                       // Bedrock
	{[]string{"malformed input request: expected maxlength"}, tooLong, mistakes}, // Bedrock
	{[]string{"maximum context length"}, tooLong, mistakes},                      // OpenAI, vLLM, OpenRouter, DeepSeek, Mistral
	{[]string{"maximum prompt length"}, tooLong, mistakes},                       // xAI
	{[]string{"exceeded model token limit"}, tooLong, mistakes},                  // Moonshot
	{[]string{"range of input length should be"}, tooLong, mistakes},             // Alibaba
	{[]string{"prompt exceeds max length"}, tooLong, mistakes},                   // Z.AI
	{[]string{"exceeded max context length"}, tooLong, mistakes},                 // Together
	{[]string{"exceeds the context window"}, tooLong, mistakes},                  // OpenAI
	{[]string{"available context size"}, tooLong, mistakes},                      // llama.cpp
	{[]string{"input length exceeds the context length"}, tooLong, mistakes},     // Ollama
	{[]string{"than the maximum model length"}, tooLong, mistakes},               // vLLM
	{[]string{"longer than the model's context length"}, tooLong, mistakes},      // SGLang
	{[]string{"greater than the context length"}, tooLong, mistakes},             // LM Studio
	{[]string{"`inputs`", "tokens", "must be <="}, tooLong, mistakes},            // Together, TGI
	{[]string{"`inputs` must have less than", "tokens"}, tooLong, mistakes},      // TGI of Hugging Face
	{[]string{"context is too long"}, tooLong, mistakes},                         // Gemini
	{[]string{"too large for model"}, tooLong, mistakes},                         // Mistral
	{[]string{"all messages is too long"}, tooLong, mistakes},                    // Perplexity
	{[]string{"too many tokens: max tokens must"}, "", mistakes},                 // Cohere: the answer that was asked for
	{[]string{"too many tokens: "}, tooLong, mistakes},                           // Cohere
	{[]string{"token count", "exceeds the maximum"}, tooLong, mistakes},          // Gemini
	{[]string{"token count", "only supports up to"}, tooLong, mistakes},          // Vertex AI

	{[]string{"credit balance is too low"}, noMoney, refusals},                 // Anthropic
	{[]string{"reached your specified api usage limits"}, noMoney, refusals},   // Anthropic
	{[]string{"insufficient balance"}, noMoney, refusals},                      // DeepSeek, Moonshot
	{[]string{"insufficient credits"}, noMoney, refusals},                      // OpenRouter
	{[]string{"key limit exceeded"}, noMoney, refusals},                        // OpenRouter
	{[]string{"used all available credits"}, noMoney, refusals},                // xAI
	{[]string{"prepayment credits are depleted"}, noMoney, refusals},           // Gemini
	{[]string{"monthly spending"}, noMoney, refusals},                          // Fireworks, xAI, Gemini
	{[]string{"free tier of the model has been exhausted"}, noMoney, refusals}, // Alibaba

	{[]string{"content exists risk"}, openai.CodeContentFilter, refusals},                 // DeepSeek
	{[]string{"content violates usage guidelines"}, openai.CodeContentFilter, refusals},   // xAI
	{[]string{"blocked by content filtering policy"}, openai.CodeContentFilter, refusals}, // Anthropic
	{[]string{"requires moderation", "flagged"}, openai.CodeContentFilter, refusals},      // OpenRouter
	{[]string{"considered high risk"}, openai.CodeContentFilter, refusals},                // Moonshot
	{[]string{"content management policy"}, openai.CodeContentFilter, refusals},           // Azure
	{[]string{"inappropriate content"}, openai.CodeContentFilter, refusals},               // Alibaba
	{[]string{"responsible ai practices"}, openai.CodeContentFilter, refusals},            // Vertex AI

	{[]string{"overloaded"}, openai.CodeOverloaded, failures},
}

const (
	tooLong = openai.CodeContextLengthExceeded
	noMoney = openai.CodeInsufficientQuota
)

// The statuses of words of a kind. "You exceeded your current quota" is not among the words: Gemini says it of
// each minute.
var (
	mistakes = []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}
	refusals = []int{http.StatusBadRequest, http.StatusForbidden, http.StatusPreconditionFailed,
		http.StatusTooManyRequests}
	failures = []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway}
)

// Said returns what a vendor's words for an error with a status mean, or "" if the status says it.
func Said(status int, message string) openai.Code {
	lower := strings.ToLower(message)
	for _, w := range words {
		if slices.Contains(w.statuses, status) && !slices.ContainsFunc(w.phrases,
			func(phrase string) bool { return !strings.Contains(lower, phrase) }) {
			return w.means
		}
	}
	return ""
}

// IsTooLong reports whether a vendor's words for an error with a status say that the prompt is longer than the model
// takes.
func IsTooLong(status int, message string) bool { return Said(status, message) == tooLong }
