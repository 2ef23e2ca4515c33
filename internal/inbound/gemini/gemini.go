// Package gemini is Google's Gemini API as clients speak it: https://ai.google.dev/api.
//
// Google's models get the client's request as it is. For all others, a request is translated into a chat completion,
// and the answer's events are written as Google's.
package gemini

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound"
)

const keyHeader = "x-goog-api-key"

// Dialect is the API.
var Dialect = &inbound.Dialect{
	Name:             "gemini",
	Plain:            true,
	Prefix:           Prefix,
	Operations:       []*inbound.Operation{unary, streamed, listed, count, embed, embedAll},
	Match:            match,
	Header:           keyHeader,
	KeyHeader:        keyHeader,
	KeyParameter:     "key",
	AppendModels:     appendModels,
	AppendError:      appendError,
	AppendErrorEvent: appendErrorEvent,
}

var (
	unary = &inbound.Operation{Name: "generateContent", Required: "'contents'",
		Subject: "contents", Parse: parseUnary, TextAnswer: true,
		Document: chat.Documents(appendAnswer)}
	streamed = &inbound.Operation{Name: "streamGenerateContent", Required: "'contents'",
		Subject: "contents", Parse: parseStreamed,
		TextAnswer: true, Streams: true, Stream: func(a chat.Asked) chat.Writer { return newStream(a, events) }}
	// listed is a stream as one JSON array, which clients get that do not ask for events.
	listed = &inbound.Operation{Name: "streamGenerateContent", Required: "'contents'",
		Subject: "contents", Parse: parseStreamed,
		TextAnswer: true, Streams: true, StreamType: "application/json",
		Stream: func(a chat.Asked) chat.Writer { return newStream(a, array) }}
	count = &inbound.Operation{Name: "countTokens", Required: "'contents'",
		Subject: "contents", Parse: parseCount, Free: true,
		AppendCount: appendCount, Document: chat.Documents(appendAnswer)}
	embed = &inbound.Operation{Name: "embedContent", Required: "'content'", Subject: "content", Parse: parseEmbed,
		Document: func(a chat.Asked) chat.Writer { return &embedding{asked: a} }}
	embedAll = &inbound.Operation{Name: "batchEmbedContents", Required: "'requests'",
		Subject: "requests", Parse: parseEmbedAll,
		Document: func(a chat.Asked) chat.Writer { return &embedding{asked: a, list: true} }}
)

// match returns the operation of a path, or nil.
func match(path, query string) *inbound.Operation {
	_, method, ok := split(path)
	if !ok {
		return nil
	}
	switch method {
	case "generateContent":
		return unary
	case "streamGenerateContent":
		if values, err := url.ParseQuery(query); err == nil && values.Get("alt") == "sse" {
			return streamed
		}
		return listed
	case "countTokens":
		return count
	case "embedContent":
		return embed
	case "batchEmbedContents":
		return embedAll
	}
	return nil
}

// statuses are Google's names of statuses: https://ai.google.dev/gemini-api/docs/troubleshooting.
var statuses = map[int]string{
	http.StatusUnauthorized:        "UNAUTHENTICATED",
	http.StatusPaymentRequired:     "FAILED_PRECONDITION",
	http.StatusForbidden:           "PERMISSION_DENIED",
	http.StatusNotFound:            "NOT_FOUND",
	http.StatusConflict:            "ABORTED",
	http.StatusTooManyRequests:     "RESOURCE_EXHAUSTED",
	http.StatusNotImplemented:      "UNIMPLEMENTED",
	http.StatusServiceUnavailable:  "UNAVAILABLE",
	http.StatusGatewayTimeout:      "DEADLINE_EXCEEDED",
	http.StatusInternalServerError: "INTERNAL",
}

// ownStatuses are the statuses of Envoy's own errors, whose status is the answer's.
var ownStatuses = map[openai.Code]int{
	openai.CodeUnknownURL: http.StatusNotFound, openai.CodeOverloaded: http.StatusServiceUnavailable,
	openai.CodeRequestTooLarge: http.StatusRequestEntityTooLarge, openai.CodeHeadersTooLarge: 431,
	openai.CodeRequestTimeout: http.StatusRequestTimeout, openai.CodeUpgradeRequired: http.StatusUpgradeRequired,
	openai.CodeUpgradeNotSupported: http.StatusForbidden,
}

// appendError appends the body of an error. Google's SDKs read the status and the message; the reason is the
// gateway's code.
func appendError(dst []byte, e *openai.Error) []byte {
	status := cmp.Or(e.Status, ownStatuses[e.Code], http.StatusBadRequest)
	name := statuses[status]
	switch {
	case name != "":
	case status >= http.StatusInternalServerError:
		name = "INTERNAL"
	default:
		name = "INVALID_ARGUMENT"
	}
	dst = strconv.AppendInt(append(dst, `{"error":{"code":`...), int64(status), 10)
	dst = openai.AppendString(append(dst, `,"message":`...), e.Message)
	dst = openai.AppendString(append(dst, `,"status":`...), name)
	dst = append(dst, `,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":`...)
	dst = openai.AppendString(dst, strings.ToUpper(cmp.Or(string(e.Code), e.Type)))
	dst = append(dst, `,"domain":"modelgate"`...)
	if e.Param != "" {
		dst = append(openai.AppendString(append(dst, `,"metadata":{"param":`...), e.Param), '}')
	}
	dst = append(dst, '}')
	if e.RetryAfter > 0 {
		dst = append(dst, `,{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"`...)
		dst = append(strconv.AppendFloat(dst, e.RetryAfter.Seconds(), 'f', -1, 64), `s"}`...)
	}
	return append(dst, `]}}`...)
}

// appendErrorEvent appends the event that ends a stream with an error.
func appendErrorEvent(dst []byte, e *openai.Error) []byte {
	return append(appendError(append(dst, "\n\ndata: "...), e), "\n\n"...)
}
