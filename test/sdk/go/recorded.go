package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/openai/openai-go/v3"
)

// A recording is what a vendor once answered and what any client must make of it, of ../testdata.
type recording struct {
	Name, Recording, Then string
	Model                 string
	Stream                bool
	Effort                string
	Tools                 []struct {
		Name       string
		Parameters map[string]any
	}
	Schema map[string]any

	Text, Reasoning string
	Object          any
	Calls           []called
	Finish          string
	Usage           struct{ Prompt, Completion, Cached, Reasoning int64 }
}

type called struct {
	Name      string
	Arguments any
}

// recordedBy returns the cases of the recordings. A folder that cannot be read is a case that fails.
func recordedBy(answer, conversation func(recording) func(context.Context, gateway) error) []testCase {
	var cases []testCase
	for file, run := range map[string]func(recording) func(context.Context, gateway) error{
		"recordings.json": answer, "conversations.json": conversation,
	} {
		var list []recording
		text, err := os.ReadFile(filepath.Join(os.Getenv("RECORDINGS"), file))
		if err == nil {
			err = json.Unmarshal(text, &list)
		}
		if err != nil {
			cases = append(cases, testCase{file, func(context.Context, gateway) error { return err }})
		}
		for _, r := range list {
			cases = append(cases, testCase{r.Name, run(r)})
		}
	}
	return cases
}

// prompt tells the vendor what to answer.
func (r recording) prompt() string {
	if r.Then != "" {
		return "replay " + r.Recording + " then " + r.Then
	}
	return "replay " + r.Recording
}

// request asks the vendor for the recording.
func (r recording) request() openai.ChatCompletionNewParams {
	request := ask(r.Model, r.prompt())
	request.ReasoningEffort = openai.ReasoningEffort(r.Effort)
	for _, tool := range r.Tools {
		request.Tools = append(request.Tools, openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: tool.Name, Description: openai.String("What it does."), Parameters: tool.Parameters,
		}))
	}
	if r.Schema != nil {
		request.ResponseFormat.OfJSONSchema = &openai.ResponseFormatJSONSchemaParam{
			JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{
				Name: "answer", Strict: openai.Bool(true), Schema: r.Schema,
			}}
	}
	return request
}

// answer returns the answer, put together by the SDK's accumulator where it is streamed, and the reasoning, which the
// accumulator leaves out.
func (r recording) answer(ctx context.Context, g gateway,
	request openai.ChatCompletionNewParams) (*openai.ChatCompletion, string, error) {
	client := g.client()
	if !r.Stream {
		done, err := client.Chat.Completions.New(ctx, request)
		choice, err := only(done, err)
		return done, text(choice.Message.JSON.ExtraFields["reasoning_content"].Raw()), err
	}
	request.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(ctx, request)
	defer stream.Close()
	var acc openai.ChatCompletionAccumulator
	var reasoning strings.Builder
	finished := 0
	for stream.Next() {
		chunk := stream.Current()
		if !acc.AddChunk(chunk) {
			return nil, "", fmt.Errorf("the accumulator refuses %s", chunk.RawJSON())
		}
		if _, ok := acc.JustFinishedToolCall(); ok {
			finished++
		}
		for _, choice := range chunk.Choices {
			reasoning.WriteString(text(choice.Delta.JSON.ExtraFields["reasoning_content"].Raw()))
		}
	}
	if err := stream.Err(); err != nil {
		return nil, "", err
	}
	return &acc.ChatCompletion, reasoning.String(), equal("calls that finished", finished, len(r.Calls))
}

// text is a JSON string's, or empty.
func text(raw string) string {
	var s string
	_ = json.Unmarshal([]byte(raw), &s) // what is no string is no text
	return s
}

func recordedAnswer(r recording) func(context.Context, gateway) error {
	return func(ctx context.Context, g gateway) error {
		done, reasoning, err := r.answer(ctx, g, r.request())
		choice, err := only(done, err)
		if err != nil {
			return describe(err)
		}
		content := equal("content", choice.Message.Content, r.Text)
		if r.Schema != nil {
			content = sameJSON("content", choice.Message.Content, r.Object)
		}
		usage := done.Usage
		return errors.Join(content, r.checkCalls(choice.Message),
			equal("model", done.Model, r.Model),
			equal("reasoning", reasoning, r.Reasoning),
			equal("finish reason", choice.FinishReason, r.Finish),
			equal("refusal", choice.Message.Refusal, ""),
			equal("prompt", usage.PromptTokens, r.Usage.Prompt),
			equal("completion", usage.CompletionTokens, r.Usage.Completion),
			equal("total", usage.TotalTokens, r.Usage.Prompt+r.Usage.Completion),
			equal("cached", usage.PromptTokensDetails.CachedTokens, r.Usage.Cached),
			equal("reasoning tokens", usage.CompletionTokensDetails.ReasoningTokens, r.Usage.Reasoning))
	}
}

func (r recording) checkCalls(message openai.ChatCompletionMessage) error {
	if len(message.ToolCalls) != len(r.Calls) {
		return fmt.Errorf("%d calls: %s", len(message.ToolCalls), message.RawJSON())
	}
	ids := map[string]bool{}
	var wrong []error
	for i, call := range message.ToolCalls {
		ids[call.ID] = true
		wrong = append(wrong, equal("name", call.Function.Name, r.Calls[i].Name),
			sameJSON("arguments", call.Function.Arguments, r.Calls[i].Arguments))
	}
	return errors.Join(append(wrong, equal("distinct ids", len(ids), len(r.Calls)))...)
}

// sameJSON is an error where a text is not the JSON of a value.
func sameJSON(what, got string, want any) error {
	var value any
	if err := json.Unmarshal([]byte(got), &value); err != nil {
		return fmt.Errorf("%s: %w: %s", what, err, got)
	}
	return check(reflect.DeepEqual(value, want), "%s: got %v, want %v", what, value, want)
}

// recordedConversation answers the calls and gives the history back as the SDK makes it.
func recordedConversation(r recording) func(context.Context, gateway) error {
	return func(ctx context.Context, g gateway) error {
		request := r.request()
		done, _, err := r.answer(ctx, g, request)
		first, err := only(done, err)
		if err != nil {
			return describe(err)
		}
		if err := r.checkCalls(first.Message); err != nil {
			return err
		}
		request.Messages = append(request.Messages, first.Message.ToParam())
		for _, call := range first.Message.ToolCalls {
			request.Messages = append(request.Messages, openai.ToolMessage("15 degrees, cloudy", call.ID))
		}
		r.Calls = nil
		done, _, err = r.answer(ctx, g, request)
		second, err := only(done, err)
		if err != nil {
			return describe(err)
		}
		return errors.Join(equal("content", second.Message.Content, r.Text), equal("finish reason", second.FinishReason,
			"stop"))
	}
}
