package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3"
)

// reporter is the model that tells what its provider was asked. The provider speaks another dialect.
const reporter = "claude/claude-haiku-4-5"

func translated() []testCase {
	return []testCase{
		{"translated unary", translatedUnary},
		{"translated streamed", translatedStreamed},
		{"translated parallel tool calls", translatedTools},
		{"translated streamed parallel tool calls", translatedStreamedTools},
		{"translated system and developer messages", translatedInstructions},
		{"translated image", translatedImage},
		{"translated tool results in a conversation of several turns", translatedTurns},
		{"translated structured output", translatedStructured},
	}
}

// A report is what the provider was asked.
type report struct{ System, Turns, Images, Results, Tools []string }

func reported(ctx context.Context, g gateway, request openai.ChatCompletionNewParams) (report, error) {
	client := g.client()
	choice, err := only(client.Chat.Completions.New(ctx, request))
	if err != nil {
		return report{}, describe(err)
	}
	var r report
	return r, json.Unmarshal([]byte(choice.Message.Content), &r)
}

// list is strings as one, to be compared.
func list(s []string) string { return strings.Join(s, "|") }

func translatedUnary(ctx context.Context, g gateway) error {
	client := g.client()
	request := ask("claude/text", "hi")
	request.MaxCompletionTokens = openai.Int(50)
	done, err := client.Chat.Completions.New(ctx, request)
	choice, err := only(done, err)
	if err != nil {
		return describe(err)
	}
	return errors.Join(
		equal("model", done.Model, "claude/text"),
		equal("content", choice.Message.Content, "\n  \"result\": 8\n}"),
		equal("finish reason", choice.FinishReason, "stop"),
		equal("prompt", done.Usage.PromptTokens, 28),
		equal("completion", done.Usage.CompletionTokens, 12),
		equal("total", done.Usage.TotalTokens, 40))
}

func translatedStreamed(ctx context.Context, g gateway) error {
	request := ask("claude/text", "hi")
	request.StreamOptions.IncludeUsage = openai.Bool(true)
	done, _, err := accumulate(ctx, g, request)
	choice, err := only(done, err)
	if err != nil {
		return describe(err)
	}
	plain, err := collect(ctx, g, ask("claude/text", "hi"))
	for _, c := range plain {
		if len(c.Choices) != 1 || c.JSON.Usage.Raw() != "" {
			return fmt.Errorf("usage that was not asked for: %s", c.RawJSON())
		}
	}
	return errors.Join(err,
		equal("model", done.Model, "claude/text"),
		equal("content", choice.Message.Content,
			"\ndef pelican():\n    return \"A large waterbird with a long bill and a throat pouch for catching fish.\"\n"),
		equal("finish reason", choice.FinishReason, "stop"),
		equal("prompt", done.Usage.PromptTokens, 16),
		equal("completion", done.Usage.CompletionTokens, 28),
		equal("total", done.Usage.TotalTokens, 44))
}

// calls are the names, ids and arguments of an answer's tool calls.
func calls(choice openai.ChatCompletionChoice) (names, ids, arguments []string) {
	for _, c := range choice.Message.ToolCalls {
		names, ids, arguments = append(names, c.Function.Name), append(ids, c.ID), append(arguments, c.Function.Arguments)
	}
	return names, ids, arguments
}

// equipped is a request with tools to the model that replays calls of tools.
func equipped() openai.ChatCompletionNewParams {
	request := ask("claude/tools", "hi")
	request.Tools = toolbox()
	return request
}

func translatedTools(ctx context.Context, g gateway) error {
	client := g.client()
	choice, err := only(client.Chat.Completions.New(ctx, equipped()))
	if err != nil {
		return describe(err)
	}
	names, ids, arguments := calls(choice)
	if err := equal("names", list(names), "get_timezone|final_result"); err != nil {
		return err
	}
	var got struct {
		City, Country string
		Population    int
	}
	return errors.Join(
		equal("finish reason", choice.FinishReason, "tool_calls"),
		equal("ids", list(ids), "toolu_01RYjj1KsnCvtj9bmK2sZWRv|toolu_01XyJoBaLsPJKMnuWZTYKatf"),
		json.Unmarshal([]byte(arguments[1]), &got),
		equal("arguments", fmt.Sprint(got), "{Sydney Australia 5312000}"))
}

func translatedStreamedTools(ctx context.Context, g gateway) error {
	done, finished, err := accumulate(ctx, g, equipped())
	choice, err := only(done, err)
	if err != nil {
		return describe(err)
	}
	names, ids, arguments := calls(choice)
	return errors.Join(
		equal("finish reason", choice.FinishReason, "tool_calls"),
		equal("names", list(names), "pelican_name_generator|pelican_name_generator"),
		equal("ids", list(ids), "toolu_01LtHJmixrs9NcWQkK8hu8hj|toolu_01N8a4jWyf116qKTMqKKmjyt"),
		equal("arguments", list(arguments), "{}|{}"),
		equal("finished", len(finished), 2))
}

func translatedInstructions(ctx context.Context, g gateway) error {
	r, err := reported(ctx, g, instructed(reporter))
	return errors.Join(err, equal("system", list(r.System), "Be brief.|Be kind."), equal("turns", list(r.Turns), "user"))
}

func translatedImage(ctx context.Context, g gateway) error {
	r, err := reported(ctx, g, illustrated(reporter))
	return errors.Join(err, equal("images", list(r.Images), "image/png"))
}

func translatedTurns(ctx context.Context, g gateway) error {
	client := g.client()
	request := equipped()
	first, err := only(client.Chat.Completions.New(ctx, request))
	if err != nil {
		return describe(err)
	}
	request.Model = reporter
	request.Messages = append(request.Messages, first.Message.ToParam())
	for i, call := range first.Message.ToolCalls {
		request.Messages = append(request.Messages, openai.ToolMessage(fmt.Sprintf("result %d", i), call.ID))
	}
	request.Messages = append(request.Messages, openai.UserMessage("and now?"))
	r, err := reported(ctx, g, request)
	return errors.Join(err,
		equal("turns", list(r.Turns), "user|assistant|user"),
		equal("results", list(r.Results), "result 0|result 1"),
		equal("tools", list(r.Tools), "get_weather|get_time"))
}

func translatedStructured(ctx context.Context, g gateway) error {
	got, err := plan(ctx, g, reporter)
	return errors.Join(err, equal("trip", fmt.Sprint(got), "{Paris 3 [Louvre]}"))
}
