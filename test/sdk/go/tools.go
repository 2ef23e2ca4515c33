package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"
)

func tools() []testCase {
	return []testCase{
		{"a tool is called", calledTool},
		{"parallel tool calls", parallelTools},
		{"tool results in a conversation of several turns", turns},
	}
}

// toolbox holds the tools get_weather(city, days) and get_time(zone).
func toolbox() []openai.ChatCompletionToolUnionParam {
	tool := func(name string, properties map[string]any) openai.ChatCompletionToolUnionParam {
		var required []string
		for p := range properties {
			required = append(required, p)
		}
		return openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: name, Description: openai.String("What it does."), Strict: openai.Bool(true),
			Parameters: openai.FunctionParameters{"type": "object", "properties": properties, "required": required,
				"additionalProperties": false},
		})
	}
	text, number := map[string]any{"type": "string"}, map[string]any{"type": "integer"}
	return []openai.ChatCompletionToolUnionParam{
		tool("get_weather", map[string]any{"city": text, "days": number}),
		tool("get_time", map[string]any{"zone": text}),
	}
}

// callBoth is a request in answer to which the echo provider calls both tools.
func callBoth() openai.ChatCompletionNewParams {
	request := ask(echo, "call get_weather and get_time")
	request.Tools = toolbox()
	return request
}

func calledTool(ctx context.Context, g gateway) error {
	client := g.client()
	for name, choice := range map[string]openai.ChatCompletionToolChoiceOptionUnionParam{
		"required": {OfAuto: openai.String("required")},
		"named": openai.ToolChoiceOptionFunctionToolChoice(
			openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "get_weather"}),
	} {
		request := ask(echo, "hi")
		request.Tools, request.ToolChoice = toolbox(), choice
		got, err := only(client.Chat.Completions.New(ctx, request))
		if err != nil {
			return fmt.Errorf("%s: %w", name, describe(err))
		}
		if len(got.Message.ToolCalls) != 1 {
			return fmt.Errorf("%s: not one call: %s", name, got.RawJSON())
		}
		call := got.Message.ToolCalls[0]
		var arguments struct {
			City string
			Days int
		}
		if err := errors.Join(
			equal("finish reason", got.FinishReason, "tool_calls"),
			equal("type", call.Type, "function"),
			equal("name", call.Function.Name, "get_weather"),
			check(call.ID != "", "no id"),
			json.Unmarshal([]byte(call.Function.Arguments), &arguments),
			check(arguments.City != "" && arguments.Days > 0, "arguments: %s", call.Function.Arguments),
		); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// checkBoth checks an answer that calls both tools.
func checkBoth(choice openai.ChatCompletionChoice) error {
	if len(choice.Message.ToolCalls) != 2 {
		return fmt.Errorf("not two calls: %s", choice.RawJSON())
	}
	weather, time := choice.Message.ToolCalls[0], choice.Message.ToolCalls[1]
	return errors.Join(
		equal("finish reason", choice.FinishReason, "tool_calls"),
		equal("first", weather.Function.Name, "get_weather"),
		equal("second", time.Function.Name, "get_time"),
		check(weather.ID != "" && weather.ID != time.ID, "ids: %q, %q", weather.ID, time.ID),
		check(json.Valid([]byte(weather.Function.Arguments)), "arguments: %s", weather.Function.Arguments),
		check(json.Valid([]byte(time.Function.Arguments)), "arguments: %s", time.Function.Arguments),
	)
}

func parallelTools(ctx context.Context, g gateway) error {
	client := g.client()
	request := callBoth()
	request.ParallelToolCalls = openai.Bool(true)
	choice, err := only(client.Chat.Completions.New(ctx, request))
	if err != nil {
		return describe(err)
	}
	return checkBoth(choice)
}

func turns(ctx context.Context, g gateway) error {
	client := g.client()
	request := callBoth()
	first, err := only(client.Chat.Completions.New(ctx, request))
	if err != nil {
		return describe(err)
	}
	request.Messages = append(request.Messages, first.Message.ToParam())
	for _, call := range first.Message.ToolCalls {
		request.Messages = append(request.Messages, openai.ToolMessage("sunny", call.ID))
	}
	second, err := only(client.Chat.Completions.New(ctx, request))
	if err != nil {
		return describe(err)
	}
	request.Messages = append(request.Messages, second.Message.ToParam(), openai.UserMessage("thanks"))
	third, err := only(client.Chat.Completions.New(ctx, request))
	return errors.Join(err,
		equal("calls", len(first.Message.ToolCalls), 2),
		equal("finish reason", second.FinishReason, "stop"),
		equal("content", third.Message.Content, "thanks"))
}
