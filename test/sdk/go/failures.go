package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

func failures() []testCase {
	return []testCase{
		{"a wrong key", wrongKey},
		{"an unknown model", unknownModel},
		{"a parameter that is wrong", wrongParameter},
		{"a rate limit of the provider", rateLimit},
		{"an error within a stream is raised", inBand("claude/failing", "overloaded")},
		{"a stream that was cut is no complete answer", inBand("claude/truncated", "upstream_truncated")},
		{"a connection that breaks in mid-stream is raised", brokenConnection},
	}
}

// describe says more of an error of the API than the SDK does.
func describe(err error) error {
	var e *openai.Error
	if errors.As(err, &e) {
		return fmt.Errorf("%w: %s", err, e.RawJSON())
	}
	return err
}

// refused is an error unless err is the API's, with the status, code and type.
func refused(err error, status int, code, kind string) error {
	var e *openai.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("not an error of the API: %w", err)
	}
	return errors.Join(
		equal("status", e.StatusCode, status),
		equal("code", e.Code, code),
		equal("type", e.Type, kind),
		check(e.Message != "", "no message"),
		check(e.Response != nil && e.Response.Header.Get("X-Request-Id") != "", "no request id"),
	)
}

func wrongKey(ctx context.Context, g gateway) error {
	for _, key := range []string{"sk-mg-" + strings.Repeat("0", 32), g.key[:len(g.key)-1], "something else"} {
		client := g.client(option.WithAPIKey(key))
		_, chat := client.Chat.Completions.New(ctx, ask(echo, "hi"))
		_, list := client.Models.List(ctx)
		for _, err := range []error{chat, list} {
			if err := refused(err, http.StatusUnauthorized, "invalid_api_key", "invalid_request_error"); err != nil {
				return err
			}
		}
	}
	return nil
}

func unknownModel(ctx context.Context, g gateway) error {
	client := g.client()
	for _, name := range []string{"gpt-9", "nobody/gpt-9"} {
		_, unary := client.Chat.Completions.New(ctx, ask(name, "hi"))
		_, streamed := collect(ctx, g, ask(name, "hi"))
		for _, err := range []error{unary, streamed} {
			if err := refused(err, http.StatusNotFound, "model_not_found", "invalid_request_error"); err != nil {
				return err
			}
		}
	}
	return nil
}

func wrongParameter(ctx context.Context, g gateway) error {
	client := g.client()
	for param, change := range map[string]func(*openai.ChatCompletionNewParams) option.RequestOption{
		"top_logprobs": func(r *openai.ChatCompletionNewParams) option.RequestOption {
			r.Logprobs, r.TopLogprobs = openai.Bool(true), openai.Int(21)
			return nil
		},
		"max_tokens": func(r *openai.ChatCompletionNewParams) option.RequestOption {
			r.MaxTokens = openai.Int(0)
			return nil
		},
		"temperature": func(*openai.ChatCompletionNewParams) option.RequestOption {
			return option.WithJSONSet("temperature", "hot")
		},
		"messages": func(r *openai.ChatCompletionNewParams) option.RequestOption {
			r.Messages = []openai.ChatCompletionMessageParamUnion{}
			return nil
		},
	} {
		request := ask(echo, "hi")
		var more []option.RequestOption
		if o := change(&request); o != nil {
			more = append(more, o)
		}
		_, err := client.Chat.Completions.New(ctx, request, more...)
		var e *openai.Error
		if !errors.As(err, &e) {
			return fmt.Errorf("%s: not an error of the API: %w", param, err)
		}
		if err := errors.Join(refused(err, http.StatusBadRequest, e.Code, "invalid_request_error"),
			equal("param", e.Param, param), check(e.Code != "", "no code")); err != nil {
			return fmt.Errorf("%s: %w", param, err)
		}
	}
	return nil
}

func rateLimit(ctx context.Context, g gateway) error {
	client := g.client()
	_, err := client.Chat.Completions.New(ctx, ask("claude/busy", "hi"))
	var e *openai.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("not an error of the API: %w", err)
	}
	return errors.Join(
		equal("status", e.StatusCode, http.StatusTooManyRequests),
		equal("code", e.Code, "rate_limit_exceeded"),
		equal("retry-after", e.Response.Header.Get("Retry-After"), "7"))
}

// inBand is the case of a stream that a model ends with an error of that code.
func inBand(model, code string) func(context.Context, gateway) error {
	return func(ctx context.Context, g gateway) error {
		_, err := collect(ctx, g, ask(model, "hi"))
		var e *ssestream.StreamError
		if !errors.As(err, &e) {
			return fmt.Errorf("not the error of a stream: %w", err)
		}
		var body struct{ Error struct{ Code, Type string } }
		return errors.Join(json.Unmarshal(e.Event.Data, &body),
			equal("code", body.Error.Code, code), equal("type", body.Error.Type, "server_error"))
	}
}

func brokenConnection(ctx context.Context, g gateway) error {
	client := g.client()
	stream, err := firstText(ctx, client, "claude/fragile")
	if err != nil {
		return err
	}
	defer stream.Close()
	if _, err := client.Chat.Completions.New(ctx, ask("claude/break", "break it")); err != nil {
		return describe(err)
	}
	for stream.Next() { // what had come already
	}
	var e *ssestream.StreamError
	return errors.Join(
		check(stream.Err() != nil, "the stream ended as if it were complete"),
		check(!errors.As(stream.Err(), &e), "an event was added to a stream that broke: %v", stream.Err()),
		ctx.Err())
}
