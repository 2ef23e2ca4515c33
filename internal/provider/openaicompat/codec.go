// Package openaicompat is the chat codec of vendors that speak OpenAI's own dialect. What such a vendor sends and gets
// passes through byte for byte, members that nobody here has heard of included; only what must change is replaced in
// place. How a vendor deviates is said by its [Dialect].
//
// What a newcomer gets wrong: usage is always asked of the vendor, because requests are metered by it, whatever the
// client asked for. So the stream that comes back is not the one that the client wants: usage is taken out of it, and
// given back at its end only to clients that asked.
package openaicompat

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// A Dialect says how a vendor's chat completions differ from OpenAI's. Its zero value is OpenAI's dialect without any
// knowledge of models.
type Dialect struct {
	// Path is where chat completions are served, relative to the endpoint's path. Default /chat/completions.
	Path string
	// Models says what models need. The first whose pattern matches counts.
	Models []Model
	// NoDone is set for a vendor that ends streams without [DONE]: they are complete once every choice has finished.
	NoDone bool
	// FinishReasons maps the vendor's own finish reasons to OpenAI's. Those that neither it nor OpenAI knows become stop.
	FinishReasons map[string]string
}

// A Model is what the models that a pattern matches need.
type Model struct {
	// Pattern is a name, or the beginning of one followed by "*".
	Pattern string
	// MaxCompletionTokens says that the model refuses max_tokens and takes max_completion_tokens.
	MaxCompletionTokens bool
}

// New returns the codec of a dialect. The dialect must not be modified afterwards.
func New(d Dialect) provider.ChatCodec {
	if d.Path == "" {
		d.Path = "/chat/completions"
	}
	return &codec{d}
}

type codec struct{ dialect Dialect }

// model returns what a model needs.
func (d *Dialect) model(name string) Model {
	for _, m := range d.Models {
		prefix, wild := strings.CutSuffix(m.Pattern, "*")
		if name == m.Pattern || wild && strings.HasPrefix(name, prefix) {
			return m
		}
	}
	return Model{}
}

// finishReason returns OpenAI's finish reason for a vendor's.
func (d *Dialect) finishReason(reason string) string {
	if mapped := d.FinishReasons[reason]; mapped != "" {
		return mapped
	}
	switch reason {
	case "stop", "length", "tool_calls", "content_filter", "function_call":
		return reason
	}
	return "stop"
}

// Encode implements provider.ChatCodec. The body is the client's own where nothing must change.
func (c *codec) Encode(r *openai.ChatRequest, t provider.Target) (provider.Request, provider.ChatAnswer, error) {
	var room [4]openai.Edit
	edits := room[:0]
	if r.Model != t.Model {
		edits = append(edits, openai.Edit{Name: "model", Value: openai.AppendString(nil, t.Model)})
	}
	if r.Stream && !r.IncludeUsage {
		edits = append(edits, openai.Edit{Name: "stream_options", Value: withUsage(r.Get("stream_options"))})
	}
	if limit := r.Get("max_tokens"); limit != nil && limit.Kind() != 'n' && c.dialect.model(t.Model).MaxCompletionTokens {
		edits = append(edits, openai.Edit{Name: "max_tokens"})
		if preferred := r.Get("max_completion_tokens"); preferred == nil || preferred.Kind() == 'n' {
			edits = append(edits, openai.Edit{Name: "max_completion_tokens", Value: limit})
		}
	}
	req := provider.Request{Path: c.dialect.Path, Header: http.Header{"Content-Type": {"application/json"}}, Body: r.Body}
	if len(edits) > 0 {
		req.Body = r.Edit(edits...)
	}
	return req, &answer{dialect: &c.dialect, choices: choices(r)}, nil
}

// DecodeError implements provider.ChatCodec.
func (c *codec) DecodeError(status int, header http.Header, body []byte) *openai.Error {
	return decodeError(status, header, body)
}

// choices returns how many choices the client wants.
func choices(r *openai.ChatRequest) int {
	if n, err := strconv.Atoi(string(r.Get("n"))); err == nil {
		return n
	}
	return 1
}

// withUsage returns the client's stream_options with include_usage set.
func withUsage(options []byte) []byte {
	m, ok := scan(options)
	if !ok || m.empty {
		return []byte(`{"include_usage":true}`)
	}
	var p patch
	p.reset(options)
	p.set(m.includeUsage, m.end, `,"include_usage":`, "true")
	return p.appendTo(nil)
}
