package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// anthropicClient returns a client of Anthropic's SDK.
func (g gateway) anthropicClient(more ...option.RequestOption) anthropic.Client {
	return anthropic.NewClient(append([]option.RequestOption{
		option.WithBaseURL(g.url), option.WithAPIKey(g.key), option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: g.transport}),
	}, more...)...)
}

// anthropicCases are those of Claude, and of every other vendor.
func anthropicCases() []testCase {
	return append(recordedBy(anthropicAnswer, anthropicConversation),
		testCase{"a wrong key", anthropicWrongKey}, testCase{"an unknown model", anthropicUnknownModel},
		testCase{"tokens are counted", anthropicTokens}, testCase{"models", anthropicModels},
		testCase{"a stream that the client leaves", anthropicLeaves})
}

func hello(text string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{Model: echo, MaxTokens: 4096,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))}}
}

// message asks a vendor for the recording, in Anthropic's terms.
func (r recording) message() anthropic.MessageNewParams {
	given := hello(r.prompt())
	given.Model = anthropic.Model(r.Model)
	for _, tool := range r.Tools {
		given.Tools = append(given.Tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{Name: tool.Name,
			InputSchema: anthropic.ToolInputSchemaParam{ExtraFields: tool.Parameters}}})
	}
	if r.Schema != nil {
		given.OutputConfig.Format = anthropic.JSONOutputFormatParam{Schema: r.Schema}
	}
	if r.Effort != "" {
		given.MaxTokens, given.Thinking = 20_000, anthropic.ThinkingConfigParamOfEnabled(2048)
	}
	return given
}

// messageOf returns the answer, put together by the SDK if it is streamed.
func (r recording) messageOf(ctx context.Context, g gateway, given anthropic.MessageNewParams) (*anthropic.Message,
	error) {
	var more []option.RequestOption
	if strings.HasPrefix(r.Model, "bedrock/") { // the recordings are Converse's, which alone takes this
		more = append(more, option.WithJSONSet("cache_control", map[string]string{"type": "ephemeral"}))
	}
	client := g.anthropicClient(more...)
	if !r.Stream {
		return client.Messages.New(ctx, given)
	}
	stream := client.Messages.NewStreaming(ctx, given)
	defer stream.Close()
	var message anthropic.Message
	for stream.Next() {
		if err := message.Accumulate(stream.Current()); err != nil {
			return nil, err
		}
	}
	return &message, stream.Err()
}

// said is what a message says.
type said struct {
	text, thinking string
	calls          []anthropic.ToolUseBlock
}

func saidBy(m *anthropic.Message) (s said) {
	for _, block := range m.Content {
		switch b := block.AsAny().(type) {
		case anthropic.TextBlock:
			s.text += b.Text
		case anthropic.ThinkingBlock:
			s.thinking += b.Thinking
		case anthropic.ToolUseBlock:
			s.calls = append(s.calls, b)
		}
	}
	return s
}

var stops = map[string]string{"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use",
	"content_filter": "refusal"}

func anthropicAnswer(r recording) func(context.Context, gateway) error {
	return func(ctx context.Context, g gateway) error {
		done, err := r.messageOf(ctx, g, r.message())
		if err != nil {
			return err
		}
		s := saidBy(done)
		if r.Schema != nil && done.StopReason == "tool_use" { // Claude's answer to the gateway's way of asking for an object
			return sameJSON("object", string(s.calls[0].Input), r.Object)
		}
		content := equal("text", s.text, r.Text)
		if r.Schema != nil {
			content = sameJSON("object", s.text, r.Object)
		}
		u := done.Usage
		return errors.Join(content, r.checkUses(s.calls), equal("model", string(done.Model), r.Model),
			equal("thinking", s.thinking, r.Reasoning),
			equal("stop", strings.Replace(string(done.StopReason), "stop_sequence", "end_turn", 1), stops[r.Finish]),
			equal("input", u.InputTokens+u.CacheReadInputTokens+u.CacheCreationInputTokens, r.Usage.Prompt),
			equal("cached", u.CacheReadInputTokens, r.Usage.Cached), equal("output", u.OutputTokens, r.Usage.Completion))
	}
}

func (r recording) checkUses(calls []anthropic.ToolUseBlock) error {
	if len(calls) != len(r.Calls) {
		return fmt.Errorf("%d calls", len(calls))
	}
	var wrong []error
	for i, call := range calls {
		wrong = append(wrong, equal("name", call.Name, r.Calls[i].Name),
			sameJSON("input", string(call.Input), r.Calls[i].Arguments))
	}
	return errors.Join(wrong...)
}

// anthropicConversation answers the calls, and gives the history back as the SDK makes it.
func anthropicConversation(r recording) func(context.Context, gateway) error {
	return func(ctx context.Context, g gateway) error {
		given := r.message()
		first, err := r.messageOf(ctx, g, given)
		if err != nil {
			return err
		}
		calls := saidBy(first).calls
		if err := r.checkUses(calls); err != nil {
			return err
		}
		var results []anthropic.ContentBlockParamUnion
		for _, call := range calls {
			results = append(results, anthropic.NewToolResultBlock(call.ID, "15 degrees, cloudy", false))
		}
		given.Messages = append(given.Messages, first.ToParam(), anthropic.NewUserMessage(results...))
		second, err := r.messageOf(ctx, g, given)
		if err != nil {
			return err
		}
		return errors.Join(equal("text", saidBy(second).text, r.Text), equal("stop", string(second.StopReason), "end_turn"))
	}
}

// failed is an error unless err is Anthropic's, with the status and the type.
func failed(err error, status int, typ string) error {
	var e *anthropic.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("not an error of the API: %w", err)
	}
	var body struct{ Error struct{ Type string } }
	return errors.Join(json.Unmarshal([]byte(e.RawJSON()), &body), equal("type", body.Error.Type, typ),
		equal("status", e.StatusCode, status), check(e.RequestID != "", "no request id"))
}

func anthropicWrongKey(ctx context.Context, g gateway) error {
	client := g.anthropicClient(option.WithAPIKey("sk-wrong"))
	_, err := client.Messages.New(ctx, hello("Hello"))
	return failed(err, http.StatusUnauthorized, "authentication_error")
}

func anthropicUnknownModel(ctx context.Context, g gateway) error {
	client, given := g.anthropicClient(), hello("Hello")
	given.Model = "nobody/x"
	_, err := client.Messages.New(ctx, given)
	return failed(err, http.StatusNotFound, "not_found_error")
}

func anthropicTokens(ctx context.Context, g gateway) error {
	client := g.anthropicClient()
	n, err := client.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{Model: echo,
		Messages: hello("How many tokens is this?").Messages})
	if err != nil {
		return err
	}
	return check(4 < n.InputTokens && n.InputTokens < 20, "%d tokens", n.InputTokens)
}

func anthropicModels(ctx context.Context, g gateway) error {
	client := g.anthropicClient()
	list := client.Models.ListAutoPaging(ctx, anthropic.ModelListParams{})
	found := false
	for list.Next() {
		found = found || list.Current().ID == echo
	}
	return errors.Join(list.Err(), check(found, "no %s", echo))
}

func anthropicLeaves(ctx context.Context, g gateway) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := g.anthropicClient()
	endless := hello("a stream that only the client ends")
	endless.Model = "claude/endless"
	stream := client.Messages.NewStreaming(ctx, endless)
	defer stream.Close()
	for stream.Next() {
		cancel()
	}
	return check(errors.Is(stream.Err(), context.Canceled), "%v", stream.Err())
}
