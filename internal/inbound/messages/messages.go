// Package messages is Anthropic's Messages API as clients speak it: https://platform.claude.com/docs/en/api/messages.
//
// A request is translated into a chat completion, which every vendor's codec takes. The answer's events are written in
// Anthropic's order.
package messages

import (
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound"
)

// Dialect is the API.
var Dialect = &inbound.Dialect{
	Name:  "anthropic",
	Plain: true,
	Operations: []*inbound.Operation{
		{Path: "/v1/messages", Name: "messages",
			Required: "'model', 'messages' and 'max_tokens'",
			Subject:  "messages", Parse: parse, Streams: true, TextAnswer: true,
			Stream:   func(a chat.Asked) chat.Writer { return &stream{asked: a} },
			Document: chat.Documents(appendMessage)},
		{Path: "/v1/messages/count_tokens", Name: "messages/count_tokens", Required: "'model' and 'messages'",
			Subject: "messages",
			Parse:   parseCount, Free: true, AppendCount: appendCount,
			Document: chat.Documents(appendMessage)},
	},
	KeyHeader:       "x-api-key", // or the bearer token, which ANTHROPIC_AUTH_TOKEN sets
	RequestIDHeader: "request-id",
	LimitHeader:     limitHeader,
	Header:          "anthropic-version",
	AppendModels:    appendModels,
	AppendError:     appendError,
	// The blank line ends an incomplete event.
	AppendErrorEvent: func(dst []byte, e *openai.Error) []byte {
		return appendErrorEvent(append(dst, "\n\n"...), e)
	},
}

// limitNames are Anthropic's names of the headers that report limits:
// https://platform.claude.com/docs/en/api/rate-limits#response-headers.
var limitNames = map[string]string{
	"x-ratelimit-limit-requests":     "anthropic-ratelimit-requests-limit",
	"x-ratelimit-remaining-requests": "anthropic-ratelimit-requests-remaining",
	"x-ratelimit-reset-requests":     "anthropic-ratelimit-requests-reset",
	"x-ratelimit-limit-tokens":       "anthropic-ratelimit-tokens-limit",
	"x-ratelimit-remaining-tokens":   "anthropic-ratelimit-tokens-remaining",
	"x-ratelimit-reset-tokens":       "anthropic-ratelimit-tokens-reset",
}

// limitHeader returns Anthropic's form of a header. A reset is a time, where OpenAI's is a duration.
func limitHeader(name, value string, now time.Time) (string, string) {
	known := limitNames[name]
	if known == "" {
		return name, value
	}
	if strings.HasSuffix(known, "-reset") {
		if after, err := time.ParseDuration(value); err == nil {
			value = now.Add(after).UTC().Format(time.RFC3339)
		}
	}
	return known, value
}
