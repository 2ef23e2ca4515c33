package messages

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// A Request is the body of a request in the Messages dialect. Encode fills it; a vendor that says the model, the
// streaming or the betas elsewhere clears those members before it asks for the JSON. What is nil or empty is not in
// the JSON.
type Request struct {
	AnthropicVersion string // for clouds that want it in the body
	AnthropicBeta    []string
	Model            string
	MaxTokens        int64
	Stream           bool
	System           []block
	Messages         []turn
	Tools            []tool
	ToolChoice       *toolChoice
	StopSequences    []string
	Temperature      *float64
	TopP             *float64
	TopK             *int64
	Thinking         *thinking
	OutputConfig     *outputConfig
	UserID           string // of metadata
	ServiceTier      string
	CacheControl     jsontext.Value
	// Own are members of the vendor's that the client sent, as it sent them.
	Own []schema.Member

	// Dropped names the members of the client's request that are not in it.
	Dropped []string
	// Adjusted names those that are in it in another form.
	Adjusted []string
}

// A turn is one message: the user's and the assistant's alternate.
type turn struct {
	role    string
	content []block
}

// A block is one content block. Which members are set follows from kind.
type block struct {
	kind         string
	text         string
	source       *source
	title        string
	id, name     string
	input        jsontext.Value
	toolUseID    string
	content      []block // of a tool's result
	isError      bool
	cacheControl jsontext.Value

	// signed, if set, is the whole block as the vendor gave it. Any change would break its signature.
	signed jsontext.Value
}

// A source is where an image or a document comes from: a URL, or its data.
type source struct{ kind, mediaType, data, url string }

type tool struct {
	name, description string
	inputSchema       jsontext.Value
	strict            bool
	cacheControl      jsontext.Value

	// own, if set, is a whole tool of the vendor's.
	own jsontext.Value
}

type toolChoice struct {
	kind, name      string
	disableParallel bool
}

// forces reports whether the choice makes the model call a tool.
func (t *toolChoice) forces() bool {
	return t != nil && (t.kind == "any" || t.kind == "tool")
}

// JSON returns the body. What the client sent as JSON is in it as it came. The error is always nil.
func (r *Request) JSON() ([]byte, error) {
	size := 1024
	for i := range r.Messages {
		for j := range r.Messages[i].content {
			size += 100 + r.Messages[i].content[j].size()
		}
	}
	for i := range r.Tools {
		size += 100 + len(r.Tools[i].description) + len(r.Tools[i].inputSchema)
	}
	return r.appendJSON(make([]byte, 0, size)), nil
}

func (b *block) size() int {
	n := len(b.text) + len(b.input) + len(b.signed)
	if b.source != nil {
		n += len(b.source.data)
	}
	for i := range b.content {
		n += 100 + b.content[i].size()
	}
	return n
}

func (r *Request) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = text(dst, "anthropic_version", r.AnthropicVersion)
	dst = stringList(dst, "anthropic_beta", r.AnthropicBeta)
	dst = text(dst, "model", r.Model)
	dst = strconv.AppendInt(member(dst, "max_tokens"), r.MaxTokens, 10)
	dst = truth(dst, "stream", r.Stream)
	if len(r.System) > 0 {
		dst = list(member(dst, "system"), r.System, block.appendJSON)
	}
	dst = list(member(dst, "messages"), r.Messages, turn.appendJSON)
	if len(r.Tools) > 0 {
		dst = list(member(dst, "tools"), r.Tools, tool.appendJSON)
	}
	if c := r.ToolChoice; c != nil {
		dst = text(append(member(dst, "tool_choice"), '{'), "type", c.kind)
		dst = text(dst, "name", c.name)
		dst = append(truth(dst, "disable_parallel_tool_use", c.disableParallel), '}')
	}
	dst = stringList(dst, "stop_sequences", r.StopSequences)
	dst = float(dst, "temperature", r.Temperature)
	dst = float(dst, "top_p", r.TopP)
	if r.TopK != nil {
		dst = strconv.AppendInt(member(dst, "top_k"), *r.TopK, 10)
	}
	if r.Thinking != nil {
		dst = r.Thinking.appendJSON(member(dst, "thinking"))
	}
	if r.OutputConfig != nil {
		dst = r.OutputConfig.appendJSON(member(dst, "output_config"))
	}
	if r.UserID != "" {
		dst = append(text(append(member(dst, "metadata"), '{'), "user_id", r.UserID), '}')
	}
	dst = text(dst, "service_tier", r.ServiceTier)
	dst = value(dst, "cache_control", r.CacheControl)
	for _, m := range r.Own {
		dst = value(dst, m.Name, m.Value)
	}
	return append(dst, '}')
}

func (t turn) appendJSON(dst []byte) []byte {
	dst = text(append(dst, '{'), "role", t.role)
	return append(list(member(dst, "content"), t.content, block.appendJSON), '}')
}

func (b block) appendJSON(dst []byte) []byte {
	if b.signed != nil {
		return append(dst, b.signed...)
	}
	dst = text(append(dst, '{'), "type", b.kind)
	dst = text(dst, "text", b.text)
	if s := b.source; s != nil {
		dst = text(append(member(dst, "source"), '{'), "type", s.kind)
		dst = text(dst, "media_type", s.mediaType)
		dst = text(dst, "data", s.data)
		dst = append(text(dst, "url", s.url), '}')
	}
	dst = text(dst, "title", b.title)
	dst = text(dst, "id", b.id)
	dst = text(dst, "name", b.name)
	dst = value(dst, "input", b.input)
	dst = text(dst, "tool_use_id", b.toolUseID)
	switch {
	case len(b.content) == 1 && b.content[0].kind == "text":
		dst = text(dst, "content", b.content[0].text)
	case len(b.content) > 0:
		dst = list(member(dst, "content"), b.content, block.appendJSON)
	}
	dst = truth(dst, "is_error", b.isError)
	return append(value(dst, "cache_control", b.cacheControl), '}')
}

func (t tool) appendJSON(dst []byte) []byte {
	if t.own != nil {
		return append(dst, t.own...)
	}
	dst = text(append(dst, '{'), "name", t.name)
	dst = text(dst, "description", t.description)
	dst = value(dst, "input_schema", t.inputSchema)
	dst = truth(dst, "strict", t.strict)
	return append(value(dst, "cache_control", t.cacheControl), '}')
}

// member begins a member of the object that is open, whose value is to follow.
func member(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(openai.AppendString(dst, name), ':')
}

func text(dst []byte, name, s string) []byte {
	if s == "" {
		return dst
	}
	return openai.AppendString(member(dst, name), s)
}

func value(dst []byte, name string, v jsontext.Value) []byte {
	if v == nil {
		return dst
	}
	return append(member(dst, name), v...)
}

func truth(dst []byte, name string, b bool) []byte {
	if !b {
		return dst
	}
	return append(member(dst, name), "true"...)
}

func float(dst []byte, name string, f *float64) []byte {
	if f == nil {
		return dst
	}
	return strconv.AppendFloat(member(dst, name), *f, 'g', -1, 64)
}

func stringList(dst []byte, name string, list []string) []byte {
	if len(list) == 0 {
		return dst
	}
	dst = append(member(dst, name), '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = openai.AppendString(dst, s)
	}
	return append(dst, ']')
}

func list[T any](dst []byte, elements []T, appendJSON func(T, []byte) []byte) []byte {
	dst = append(dst, '[')
	for i := range elements {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendJSON(elements[i], dst)
	}
	return append(dst, ']')
}
