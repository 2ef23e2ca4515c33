package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

const spoken = "one two  three,\nünd more"

func streams() []testCase {
	return []testCase{
		{"streamed", streamed},
		{"streamed with usage", streamedWithUsage},
		{"streamed tool calls", streamedTools},
		{"cancel in mid-stream", cancelled},
		{"cancel in mid-stream, by context", cancelledByContext},
	}
}

// collect returns all chunks of a stream.
func collect(ctx context.Context, g gateway, request openai.ChatCompletionNewParams) ([]openai.ChatCompletionChunk,
	error) {
	client := g.client()
	stream := client.Chat.Completions.NewStreaming(ctx, request)
	defer stream.Close()
	var chunks []openai.ChatCompletionChunk
	for stream.Next() {
		chunks = append(chunks, stream.Current())
	}
	return chunks, stream.Err()
}

// checkChunks checks what every stream of the spoken text must be.
func checkChunks(chunks []openai.ChatCompletionChunk) error {
	var roles, texts, finishes []string
	for _, c := range chunks {
		if c.ID != chunks[0].ID || c.Model != echo || string(c.Object) != "chat.completion.chunk" || len(c.Choices) != 1 {
			return fmt.Errorf("not a chunk of the stream: %s", c.RawJSON())
		}
		choice := c.Choices[0]
		roles, texts, finishes = append(roles, choice.Delta.Role), append(texts, choice.Delta.Content), append(finishes,
			choice.FinishReason)
	}
	empty := func(s string) bool { return s == "" }
	last := finishes[len(finishes)-1]
	roles, texts, finishes = slices.DeleteFunc(roles, empty), slices.DeleteFunc(texts, empty), slices.DeleteFunc(finishes,
		empty)
	return errors.Join(
		equal("roles", strings.Join(roles, "|"), "assistant"),
		equal("content", strings.Join(texts, ""), spoken),
		check(len(texts) > 1, "it came as a whole"),
		equal("finish reasons", strings.Join(finishes, "|"), "stop"),
		equal("the last finish reason", last, "stop"),
	)
}

func streamed(ctx context.Context, g gateway) error {
	for _, options := range []openai.ChatCompletionStreamOptionsParam{{}, {IncludeUsage: openai.Bool(false)}} {
		request := ask(echo, spoken)
		request.StreamOptions = options
		chunks, err := collect(ctx, g, request)
		if err != nil || len(chunks) == 0 {
			return fmt.Errorf("%d chunks: %w", len(chunks), err)
		}
		for _, c := range chunks {
			if c.JSON.Usage.Raw() != "" {
				return fmt.Errorf("usage that was not asked for: %s", c.RawJSON())
			}
		}
		if err := checkChunks(chunks); err != nil {
			return err
		}
	}
	return nil
}

func streamedWithUsage(ctx context.Context, g gateway) error {
	request := ask(echo, spoken)
	request.StreamOptions.IncludeUsage = openai.Bool(true)
	chunks, err := collect(ctx, g, request)
	if err != nil || len(chunks) < 2 {
		return fmt.Errorf("%d chunks: %w", len(chunks), err)
	}
	rest, last := chunks[:len(chunks)-1], chunks[len(chunks)-1]
	for _, c := range rest {
		if c.JSON.Usage.Raw() != "null" {
			return fmt.Errorf("usage is to be null before the last chunk: %s", c.RawJSON())
		}
	}
	return errors.Join(checkChunks(rest),
		equal("choices of the last chunk", len(last.Choices), 0),
		check(last.Usage.CompletionTokens > 0, "usage: %s", last.RawJSON()),
		equal("total", last.Usage.TotalTokens, last.Usage.PromptTokens+last.Usage.CompletionTokens))
}

// accumulate puts a streamed answer together, and returns the tool calls in the order in which they were complete.
func accumulate(ctx context.Context, g gateway, request openai.ChatCompletionNewParams) (*openai.ChatCompletion,
	[]string, error) {
	client := g.client()
	stream := client.Chat.Completions.NewStreaming(ctx, request)
	defer stream.Close()
	acc := openai.ChatCompletionAccumulator{}
	var finished []string
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			return nil, nil, fmt.Errorf("the accumulator refuses %s", stream.Current().RawJSON())
		}
		if call, ok := acc.JustFinishedToolCall(); ok {
			finished = append(finished, call.Name)
		}
	}
	return &acc.ChatCompletion, finished, stream.Err()
}

func streamedTools(ctx context.Context, g gateway) error {
	done, finished, err := accumulate(ctx, g, callBoth())
	choice, err := only(done, err)
	if err != nil {
		return describe(err)
	}
	return errors.Join(checkBoth(choice), equal("finished", strings.Join(finished, "|"), "get_weather|get_time"))
}

// firstText reads a stream of a model up to its first text.
func firstText(ctx context.Context, client openai.Client, model string) (*ssestream.Stream[openai.ChatCompletionChunk],
	error) {
	stream := client.Chat.Completions.NewStreaming(ctx, ask(model, "hi"))
	for stream.Next() {
		if choices := stream.Current().Choices; len(choices) > 0 && choices[0].Delta.Content != "" {
			return stream, nil
		}
	}
	return nil, fmt.Errorf("no text came: %w", stream.Err())
}

// stillThere shows that the gateway answers the same client.
func stillThere(ctx context.Context, client openai.Client) error {
	choice, err := only(client.Chat.Completions.New(ctx, ask(echo, "still there")))
	return errors.Join(err, equal("content", choice.Message.Content, "still there"))
}

func cancelled(ctx context.Context, g gateway) error {
	client := g.client()
	stream, err := firstText(ctx, client, "claude/endless")
	if err != nil {
		return err
	}
	return errors.Join(stream.Close(), stillThere(ctx, client))
}

func cancelledByContext(ctx context.Context, g gateway) error {
	client := g.client()
	shorter, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := firstText(shorter, client, "claude/endless")
	if err != nil {
		return err
	}
	cancel()
	for stream.Next() { // what had come already
	}
	return errors.Join(
		check(errors.Is(stream.Err(), context.Canceled), "the stream ended with %v", stream.Err()),
		stillThere(ctx, client))
}
