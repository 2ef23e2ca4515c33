// Package openaicompat is the codec of vendors with OpenAI's own dialect, for chat completions, legacy completions and
// embeddings. Requests pass byte for byte, except for necessary changes. Answers of OpenAI itself do too. Answers of
// other vendors are corrected if they differ from what OpenAI's clients rely on, and keep unknown members. A [Dialect]
// describes how a vendor differs.
//
// The codec always requests usage from the vendor, because requests are metered by it. So the vendor's stream differs
// from the client's: usage is removed from it, and added at its end if the client asked for it.
package openaicompat

import (
	"net/http"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// A Dialect says how a vendor's API differs from OpenAI's. What a single model needs is in the catalog.
type Dialect struct {
	// Vendor is the provider's name, for errors.
	Vendor string
	// Locate, unless it is nil, returns the vendor's path for OpenAI's path. Both are relative to the endpoint's.
	Locate func(path string, t provider.Target) string

	// Own are the vendor's own values, words and forms, which OpenAI would refuse: see openai.Object.Judge. A schema
	// without a name gets one, but where openai.Unnamed is among them.
	Own []string
	// Today means that a word that is not in a list today is refused, although OpenAI adds to the list, such as
	// efforts.
	Today bool
	// Unsupported are parameters that the vendor refuses, or ignores in silence. Asked for with a value that is not the
	// default, they are an error, or dropped if the operator says so; their defaults are left out.
	Unsupported []string
	// Rename gives parameters the vendor's own names: max_completion_tokens is often max_tokens.
	Rename map[string]string
	// SystemRole says that the vendor knows no role developer: such messages become system messages.
	SystemRole bool
	// MessageMembers are the members of messages that a strict vendor takes; nil means any. Others are left out, and
	// named where they say something that the gateway itself has not given with an answer.
	MessageMembers []string
	// Hints are parameters on which nothing of an answer depends, and which the vendor does not take. They are left out
	// and named, cache_control from messages and tools too. See AllHints.
	Hints []string
	// JoinText says that the vendor takes text as a string alone: content that is an array of nothing but text becomes
	// one.
	JoinText bool
	// NoSchemas says that the vendor knows json_object, but no schemas: a system message then states the schema.
	NoSchemas bool
	// AutoTools says that the vendor knows no tool_choice but auto: none takes the tools out, others are unsupported.
	AutoTools bool
	// AllTools says that tools and choices among them may be of any kind that OpenAI knows. Elsewhere allowed_tools is
	// done by sending no others, and tools of type custom are unsupported.
	AllTools bool
	// OnePrompt means that a legacy completion has only one text.
	OnePrompt bool
	// Thoughts says that Claude's thinking, as parts of messages or thinking_blocks, passes as it came. Elsewhere it is
	// taken out and named.
	Thoughts bool
	// SearchTool says that a tool for searching the web is web_search_options here, as in OpenAI's own chat completions.
	SearchTool bool
	// Reasoning is the member of a request's messages that holds the reasoning, if it is not reasoning_content. In
	// answers it is found under any name.
	Reasoning string
	// Carry are the members of messages that the vendor must get back with the calls that they came with. They travel in
	// the id of the first call, for clients that do not echo them.
	Carry []string
	// CarryApart says that servers of this vendor are strangers to one another: each gets back only what it has said
	// itself, and also extra_content of calls.
	CarryApart bool
	// NoStreamOptions is set for a vendor that refuses stream_options: it reports usage in every stream.
	NoStreamOptions bool
	// Rewrite, unless it is nil, makes further changes to a chat completion request.
	Rewrite func(r *openai.ChatRequest, t provider.Target, c *Changes) error

	// AsReceived says that answers pass as they came: those of OpenAI itself need no correction.
	AsReceived bool
	// NoDone is set for a vendor that ends streams without [DONE]: they are complete once every choice has finished.
	NoDone bool
	// FinishReasons maps the vendor's own finish reasons to OpenAI's, or to error. Those that nobody knows become stop.
	FinishReasons map[string]string
	// Codes gives OpenAI's codes for the vendor's own codes and types of errors. The status is then that of OpenAI's
	// code.
	Codes map[string]openai.Code
}

// AllHints are the parameters on which nothing of an answer depends.
var AllHints = []string{
	"prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "cache_control", "safety_identifier", "store",
	"metadata",
}

// Stranger returns the dialect of servers that nothing is known of. Requests pass to them unchanged.
func Stranger(vendor string) Dialect {
	return Dialect{Vendor: vendor, AllTools: true, Thoughts: true,
		Carry:      []string{"thinking_blocks", "reasoning_details"},
		CarryApart: true, Own: []string{"*", openai.Unnamed}}
}

// New returns the codec of a dialect's chat completions. The dialect must not be modified afterwards.
func New(d Dialect) provider.ChatCodec { return &chatCodec{d} }

type chatCodec struct{ dialect Dialect }

// Encode implements provider.ChatCodec. The body is the client's own if nothing must change.
func (c *chatCodec) Encode(r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	d := &c.dialect
	changes := newChanges(&r.Object, d, t)
	changes.translated = r.Translated
	if err := changes.judge(); err != nil {
		return provider.Request{}, nil, err
	}
	changes.model(r.Model)
	forced := changes.streamOptions(r.Stream, r.IncludeUsage)
	if r.Translated || d.AsReceived && t.Fits(r) {
		changes.effort()
	}
	if r.Translated && d.AsReceived {
		changes.sampling()
	}
	if err := changes.parameters(); err != nil {
		return provider.Request{}, nil, err
	}
	changes.outputLimit()
	if err := changes.withoutForeign(); err != nil {
		return provider.Request{}, nil, err
	}
	if err := changes.messages(r); err != nil {
		return provider.Request{}, nil, err
	}
	if err := changes.tools(); err != nil {
		return provider.Request{}, nil, err
	}
	names := changes.fit(r)
	if d.NoSchemas {
		changes.schema()
	}
	if d.Rewrite != nil {
		if err := d.Rewrite(r, t, changes); err != nil {
			return provider.Request{}, nil, err
		}
	}
	a := d.answer(&chatShape, r.Model, t, forced)
	a.choices = wanted(r.Get("n"))
	if names != nil { // the answer names tools as the vendor knows them
		a.names, a.asReceived = names, false
	}
	return changes.request("/chat/completions"), a, nil
}

// answer returns what reads the answer to a request. Forced says that the gateway asked for usage against the client's
// wish.
func (d *Dialect) answer(s *shape, model string, t provider.Target, forced bool) *answer {
	return &answer{
		dialect: d, shape: s, choices: 1, forced: forced,
		asReceived: d.AsReceived || t.Config.GetUntouchedAnswers(), mended: s == &chatShape &&
			!t.Config.GetUntouchedAnswers(), renamed: model != t.Model, provider: t.Config.GetName(),
	}
}

// Bearer signs requests as OpenAI does. A server that needs no credential gets no header: local ones refuse an empty
// token.
func Bearer(r *provider.Request, s provider.Signing) error {
	if !s.Credential.IsZero() {
		r.Header.Set("Authorization", "Bearer "+s.Credential.Reveal())
	}
	return nil
}

// typeJSON is the value of a header. It is shared, and must not be modified.
var typeJSON = []string{"application/json"}

// newRequest returns a request with a JSON body for an operation.
func (d *Dialect) newRequest(path string, t provider.Target, body []byte, dropped []string) provider.Request {
	if d.Locate != nil {
		path = d.Locate(path, t)
	}
	return provider.Request{Path: path, Header: http.Header{"Content-Type": typeJSON}, Body: body, Dropped: dropped}
}

// wanted reads how many choices a client wants.
func wanted(n []byte) int {
	if len(n) == 0 { // an error of strconv would take memory
		return 1
	}
	if n, err := strconv.Atoi(string(n)); err == nil {
		return n
	}
	return 1
}
