package compose

import "strings"

// Billing begins a line that Claude Code puts first into its system prompt. It concerns only Anthropic, and it is
// another one in each request, so that no other vendor would find the prompt in its cache.
const Billing = "x-anthropic-billing-header:"

// WithoutBilling returns a text without a line about Anthropic's billing at its beginning.
func WithoutBilling(text string) string {
	if !strings.HasPrefix(text, Billing) {
		return text
	}
	_, rest, _ := strings.Cut(text, "\n")
	return strings.TrimLeft(rest, "\r\n")
}
