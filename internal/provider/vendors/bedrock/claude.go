package bedrock

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/eventstream"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/converse"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// claudeVersion takes the place of Anthropic's version header:
// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html.
const claudeVersion = "bedrock-2023-05-31"

// jsonType is the media type of InvokeModel's bodies, also of those in the frames of a stream.
const jsonType = "application/json"

// native passes requests of Anthropic's clients to Claude, by InvokeModel.
type native struct{}

// lacking are members that Claude on Bedrock refuses, and that Converse honours, leaves out, or refuses by name.
var lacking = []string{"cache_control", "container", "inference_geo", "mcp_servers", "output_format", "service_tier",
	"speed"}

// eager is the path of a member that Claude on Bedrock refuses as an extra input, and that Converse leaves out.
const eager = "tools.#.eager_input_streaming"

// usualTiers are the service tiers that cost no client more.
var usualTiers = []string{"auto", "standard_only"}

// clientTools are how the types of Anthropic's tools begin that the client runs, or that Bedrock has.
var clientTools = []string{"custom", "bash_", "computer_", "memory_", "text_editor_", "tool_search_tool_"}

// Serves implements provider.NativeCodec.
func (native) Serves(r provider.NativeRequest, t provider.Target) bool {
	if !converse.IsClaude(t) {
		return false
	}
	body := gjson.ParseBytes(r.Body)
	if len(body.Get(eager).Array()) > 0 {
		return false
	}
	takes := true
	body.ForEach(func(member, v gjson.Result) bool {
		switch {
		case member.Str == "tools":
			takes = takesTools(v, t)
		case member.Str == "output_config":
			takes = t.Can().GetStructuredOutput() || !v.Get("format").IsObject()
		case member.Str == "service_tier" && slices.Contains(usualTiers, v.Str): // Bedrock serves in it unasked
		case slices.Contains(lacking, member.Str):
			takes = !turns.Asked(jsontext.Value(v.Raw))
		}
		return takes
	})
	return takes
}

// takesTools reports whether Bedrock has the tools of a request, and the model what is asked of them.
func takesTools(tools gjson.Result, t provider.Target) bool {
	takes := true
	tools.ForEach(func(_, tool gjson.Result) bool {
		typ := tool.Get("type").Str
		isClients := func(begin string) bool { return strings.HasPrefix(typ, begin) }
		takes = typ == "" || slices.ContainsFunc(clientTools, isClients)
		takes = takes && (tool.Get("strict").Type != gjson.True || t.Can().GetStructuredOutput())
		return takes
	})
	return takes
}

// Encode implements provider.NativeCodec.
func (native) Encode(r provider.NativeRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	m := messages.EncodeNative(name, r, t.Can(), "", claudeVersion, append(slices.Clone(lacking), "stream")...)
	operation := "invoke"
	switch {
	case r.Count:
		return encodeCount(m, r, t)
	case r.Stream:
		operation = "invoke-with-response-stream"
	}
	return provider.Request{Path: converse.OperationPath(t.Model, operation), Header: converse.Headers(jsonType),
		Body: m.Body, Dropped: m.Dropped}, &claudeAnswer{}, nil
}

// encodeCount builds a request of CountTokens, which takes the body of InvokeModel:
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html.
func encodeCount(m messages.Native, r provider.NativeRequest, t provider.Target) (provider.Request, provider.Answer,
	error) {
	if !gjson.GetBytes(r.Body, "max_tokens").Exists() { // a count has none, but InvokeModel needs it
		m.Body = append(m.Body[:len(m.Body)-1], `,"max_tokens":1}`...)
	}
	var body struct {
		Input struct {
			InvokeModel struct {
				Body []byte `json:"body"`
			} `json:"invokeModel"`
		} `json:"input"`
	}
	body.Input.InvokeModel.Body = m.Body
	encoded, err := json.Marshal(&body)
	if err != nil {
		return provider.Request{}, nil, messages.JSONError(err)
	}
	return provider.Request{Path: converse.OperationPath(withoutRegion(t.Model), "count-tokens"),
		Header: converse.Headers(jsonType), Body: encoded, Dropped: m.Dropped}, countAnswer{}, nil
}

// withoutRegion returns the foundation model of an inference profile such as us.anthropic.claude-sonnet-4-6: only
// foundation models are counted for.
func withoutRegion(model string) string {
	if region, rest, ok := strings.Cut(model, ".anthropic."); ok && !strings.ContainsAny(region, ".:/") {
		return "anthropic." + rest
	}
	return model
}

// A countAnswer reads the answer of CountTokens, and gives Anthropic's.
type countAnswer struct{ provider.Unstreamed }

// Decode implements provider.Answer.
func (countAnswer) Decode(body []byte, _ chat.Asked, out chat.Sink) error {
	var v struct {
		InputTokens *provider.Count `json:"inputTokens"`
	}
	if err := json.Unmarshal(body, &v, provider.Lenient); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	if v.InputTokens == nil {
		return fmt.Errorf("%w: it has no inputTokens", provider.ErrNotAnAnswer)
	}
	rendered := strconv.AppendInt([]byte(`{"input_tokens":`), int64(*v.InputTokens), 10)
	out.Put(chat.Event{Kind: chat.KindNative, JSON: append(rendered, '}')})
	out.Put(chat.End())
	return nil
}

// A claudeAnswer reads Claude's own answer, whose events come in frames.
type claudeAnswer struct{ messages.NativeAnswer }

// Stream implements provider.Answer.
func (a *claudeAnswer) Stream(asked chat.Asked) provider.Stream {
	return &claudeStream{events: a.Events(asked)}
}

// A claudeStream implements provider.Stream.
type claudeStream struct {
	frames eventstream.Decoder
	events messages.NativeEvents
	data   []byte // of one event
}

// Decode implements provider.Stream.
func (s *claudeStream) Decode(piece []byte, out chat.Sink) error {
	s.frames.Feed(piece)
	for {
		f, ok, err := s.frames.Next()
		switch {
		case err != nil && s.events.Close() == nil:
			return nil // the answer is complete
		case err != nil:
			return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
		case !ok:
			return nil
		}
		if err := s.frame(f, out); err != nil {
			return err
		}
	}
}

// Close implements provider.Stream.
func (s *claudeStream) Close(chat.Sink) error { return s.events.Close() }

// frame reads a frame: an event in base64, or an error. Its padding, "p", is ignored.
func (s *claudeStream) frame(f eventstream.Frame, out chat.Sink) error {
	if err := converse.FrameError(f); err != nil {
		return err
	}
	if string(f.Header(":event-type")) != "chunk" {
		return nil
	}
	var chunk struct {
		Bytes string `json:"bytes"`
	}
	err := json.Unmarshal(f.Payload, &chunk, provider.Lenient)
	if err == nil {
		s.data, err = base64.StdEncoding.AppendDecode(s.data[:0], []byte(chunk.Bytes))
	}
	if err != nil {
		return fmt.Errorf("%w: a chunk: %w", provider.ErrNotAnAnswer, err)
	}
	return s.events.Event(bytes.TrimSpace(s.data), out)
}
