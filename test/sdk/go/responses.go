package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// responseCases are those of the Responses API, of every vendor.
func responseCases() []testCase {
	return append(recordedBy(responseAnswer, responseConversation),
		testCase{"a conversation by previous responses", storedResponses},
		testCase{"a background response is streamed and resumed", resumedResponse})
}

// response asks a vendor for the recording.
func (r recording) response() responses.ResponseNewParams {
	given := responses.ResponseNewParams{Model: r.Model, Store: openai.Bool(false),
		Input: items(map[string]any{"role": "user", "content": r.prompt()})}
	for _, tool := range r.Tools {
		given.Tools = append(given.Tools, responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{Name: tool.Name,
			Parameters: tool.Parameters, Strict: openai.Bool(true)}})
	}
	if r.Schema != nil {
		given.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "answer", Schema: r.Schema,
			Strict: openai.Bool(true)}
	}
	if r.Effort != "" {
		given.Reasoning = shared.ReasoningParam{Effort: shared.ReasoningEffort(r.Effort), Summary: "auto"}
	}
	return given
}

// items returns the input of items of any kind.
func items(all ...any) (in responses.ResponseNewParamsInputUnion) {
	for _, item := range all {
		text, _ := json.Marshal(item) // it is JSON, or a map of texts
		in.OfInputItemList = append(in.OfInputItemList,
			param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(text)))
	}
	return in
}

// responseOf returns the response, which is that of the last event if it is streamed.
func responseOf(ctx context.Context, g gateway, given responses.ResponseNewParams, streamed bool) (*responses.Response,
	error) {
	client := g.client()
	if !streamed {
		return client.Responses.New(ctx, given)
	}
	stream := client.Responses.NewStreaming(ctx, given)
	defer stream.Close()
	next, done := int64(0), (*responses.Response)(nil)
	for stream.Next() {
		e := stream.Current()
		if e.SequenceNumber != next {
			return nil, fmt.Errorf("event %d is not %d", e.SequenceNumber, next)
		}
		next++
		if slices.Contains([]string{"response.completed", "response.incomplete", "response.failed"}, e.Type) {
			done = &e.Response
		}
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	return done, check(done != nil, "the response does not end")
}

// native reports whether a vendor serves the API itself. Nothing of it is recorded.
func (r recording) native() bool {
	vendor, _, _ := strings.Cut(r.Model, "/")
	return slices.Contains([]string{"deepseek", "groq", "openrouter"}, vendor)
}

func (r recording) notRecorded(ctx context.Context, g gateway) error {
	_, err := responseOf(ctx, g, r.response(), r.Stream)
	err = describe(err)
	return check(err != nil && strings.Contains(err.Error(), "POST /responses"), "%v", err)
}

func reasoningOf(done *responses.Response) (text string) {
	for _, item := range done.Output {
		for _, s := range item.Summary {
			text += s.Text
		}
	}
	return text
}

func (r recording) checkItems(done *responses.Response) error {
	var wrong []error
	n := 0
	for _, item := range done.Output {
		if item.Type != "function_call" {
			continue
		}
		if n == len(r.Calls) {
			return errors.New("there are more calls")
		}
		call := item.AsFunctionCall()
		wrong = append(wrong, equal("name", call.Name, r.Calls[n].Name),
			sameJSON("arguments", call.Arguments, r.Calls[n].Arguments))
		n++
	}
	return errors.Join(append(wrong, equal("calls", n, len(r.Calls)))...)
}

func responseAnswer(r recording) func(context.Context, gateway) error {
	if r.native() {
		return r.notRecorded
	}
	return func(ctx context.Context, g gateway) error {
		done, err := responseOf(ctx, g, r.response(), r.Stream)
		if err != nil {
			return describe(err)
		}
		content := equal("text", done.OutputText(), r.Text)
		if r.Schema != nil {
			content = sameJSON("object", done.OutputText(), r.Object)
		}
		status := "completed"
		if r.Finish == "length" || r.Finish == "content_filter" {
			status = "incomplete"
		}
		u := done.Usage
		return errors.Join(content, r.checkItems(done), equal("model", done.Model, r.Model),
			equal("status", string(done.Status), status), equal("reasoning", reasoningOf(done), r.Reasoning),
			equal("input", u.InputTokens, r.Usage.Prompt), equal("output", u.OutputTokens, r.Usage.Completion),
			equal("cached", u.InputTokensDetails.CachedTokens, r.Usage.Cached))
	}
}

// responseConversation answers the calls, and gives the history back as it came.
func responseConversation(r recording) func(context.Context, gateway) error {
	if r.native() {
		return r.notRecorded
	}
	return func(ctx context.Context, g gateway) error {
		given := r.response()
		first, err := responseOf(ctx, g, given, r.Stream)
		if err != nil {
			return describe(err)
		}
		if err := r.checkItems(first); err != nil {
			return err
		}
		history := []any{map[string]any{"role": "user", "content": r.prompt()}}
		var results []any
		for _, item := range first.Output {
			history = append(history, json.RawMessage(item.RawJSON()))
			if item.Type == "function_call" {
				results = append(results, map[string]any{"type": "function_call_output", "call_id": item.CallID,
					"output": "15 degrees, cloudy"})
			}
		}
		given.Input = items(append(history, results...)...)
		second, err := responseOf(ctx, g, given, r.Stream)
		if err != nil {
			return describe(err)
		}
		return errors.Join(equal("text", second.OutputText(), r.Text), equal("status", string(second.Status), "completed"))
	}
}

// storedResponses refers to what the gateway stores.
func storedResponses(ctx context.Context, g gateway) error {
	client := g.client()
	given := responses.ResponseNewParams{Model: echo, Input: items(map[string]any{"role": "user", "content": "one"})}
	first, err := responseOf(ctx, g, given, false)
	if err != nil {
		return describe(err)
	}
	given.PreviousResponseID = openai.String(first.ID)
	second, err := responseOf(ctx, g, given, true)
	if err != nil {
		return describe(err)
	}
	got, err := client.Responses.Get(ctx, second.ID, responses.ResponseGetParams{})
	if err != nil {
		return describe(err)
	}
	gone := client.Responses.Delete(ctx, second.ID)
	_, after := client.Responses.Get(ctx, second.ID, responses.ResponseGetParams{})
	return errors.Join(gone, equal("text", got.OutputText(), "one"), equal("previous", got.PreviousResponseID, first.ID),
		check(after != nil, "it is still there"))
}

func resumedResponse(ctx context.Context, g gateway) error {
	client := g.client()
	given := responses.ResponseNewParams{Model: echo, Background: openai.Bool(true),
		Input: items(map[string]any{"role": "user", "content": "later and later"})}
	whole, err := responseOf(ctx, g, given, true)
	if err != nil {
		return describe(err)
	}
	stream := client.Responses.GetStreaming(ctx, whole.ID, responses.ResponseGetParams{StartingAfter: openai.Int(2)})
	defer stream.Close()
	next := int64(3)
	for ; stream.Next(); next++ {
		if n := stream.Current().SequenceNumber; n != next {
			return fmt.Errorf("event %d is not %d", n, next)
		}
	}
	return errors.Join(stream.Err(), check(next > 4, "there are no events"))
}
