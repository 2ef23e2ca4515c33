package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// echo is the model of the built-in provider, which repeats the last message of the user.
const echo = "echo/echo"

const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func answers() []testCase {
	return []testCase{
		{"unary", unary},
		{"request id", requestID},
		{"system and developer messages", instructions},
		{"image", image},
		{"structured output", structured},
		{"list of models", models},
		{"a model whose id has a slash", model},
	}
}

func unary(ctx context.Context, g gateway) error {
	client := g.client()
	done, err := client.Chat.Completions.New(ctx, ask(echo, "hello there, wörld"))
	choice, err := only(done, err)
	if err != nil {
		return err
	}
	return errors.Join(
		equal("object", string(done.Object), "chat.completion"),
		equal("model", done.Model, echo),
		check(strings.HasPrefix(done.ID, "chatcmpl-"), "id: %s", done.ID),
		check(done.Created > 1_700_000_000, "created: %d", done.Created),
		equal("role", string(choice.Message.Role), "assistant"),
		equal("content", choice.Message.Content, "hello there, wörld"),
		equal("finish reason", choice.FinishReason, "stop"),
		check(done.Usage.PromptTokens > 0 && done.Usage.CompletionTokens > 0, "usage: %s", done.Usage.RawJSON()),
		equal("total", done.Usage.TotalTokens, done.Usage.PromptTokens+done.Usage.CompletionTokens),
	)
}

func requestID(ctx context.Context, g gateway) error {
	client := g.client()
	seen := map[string]bool{}
	for range 2 {
		var response *http.Response
		if _, err := client.Chat.Completions.New(ctx, ask(echo, "hi"), option.WithResponseInto(&response)); err != nil {
			return err
		}
		id := response.Header.Get("X-Request-Id")
		if !regexp.MustCompile(`^[\w.-]{8,128}$`).MatchString(id) || seen[id] {
			return fmt.Errorf("the request id is %q", id)
		}
		seen[id] = true
	}
	return nil
}

// instructed is a request with a system and a developer message.
func instructed(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{
		openai.SystemMessage("Be brief."), openai.DeveloperMessage("Be kind."), openai.UserMessage("hi"),
	}}
}

func instructions(ctx context.Context, g gateway) error {
	client := g.client()
	choice, err := only(client.Chat.Completions.New(ctx, instructed(echo)))
	return errors.Join(err, equal("content", choice.Message.Content, "hi"))
}

// illustrated is a request with an image.
func illustrated(model string) openai.ChatCompletionNewParams {
	parts := []openai.ChatCompletionContentPartUnionParam{
		openai.TextContentPart("what is this"),
		openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: pixel, Detail: "low"}),
	}
	return openai.ChatCompletionNewParams{Model: model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(parts)}}
}

func image(ctx context.Context, g gateway) error {
	client := g.client()
	choice, err := only(client.Chat.Completions.New(ctx, illustrated(echo)))
	return errors.Join(err, equal("content", choice.Message.Content, "what is this"))
}

// A trip is what structured answers are.
type trip struct {
	City  string   `json:"city"`
	Days  int      `json:"days"`
	Stops []string `json:"stops"`
}

// planned is a request for a trip.
func planned(model string) openai.ChatCompletionNewParams {
	request := ask(model, "plan")
	request.ResponseFormat.OfJSONSchema = &openai.ResponseFormatJSONSchemaParam{
		JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{
			Name: "trip", Strict: openai.Bool(true),
			Schema: map[string]any{
				"type": "object", "additionalProperties": false, "required": []string{"city", "days", "stops"},
				"properties": map[string]any{
					"city": map[string]any{"type": "string"}, "days": map[string]any{"type": "integer"},
					"stops": map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
				},
			},
		}}
	return request
}

// plan asks for a trip and reads it.
func plan(ctx context.Context, g gateway, model string) (trip, error) {
	client := g.client()
	choice, err := only(client.Chat.Completions.New(ctx, planned(model)))
	if err != nil {
		return trip{}, err
	}
	var got trip
	return got, json.Unmarshal([]byte(choice.Message.Content), &got)
}

func structured(ctx context.Context, g gateway) error {
	got, err := plan(ctx, g, echo)
	return errors.Join(err, check(got.City != "" && got.Days > 0 && len(got.Stops) > 0, "got %+v", got))
}

func models(ctx context.Context, g gateway) error {
	client := g.client()
	var ids []string
	pages := client.Models.ListAutoPaging(ctx)
	for pages.Next() {
		m := pages.Current()
		if string(m.Object) != "model" || m.OwnedBy == "" {
			return fmt.Errorf("not a model: %s", m.RawJSON())
		}
		ids = append(ids, m.ID)
	}
	return errors.Join(pages.Err(),
		check(slices.Contains(ids, echo) && slices.Contains(ids, "claude/text"), "the list is %v", ids),
		check(slices.IsSorted(ids), "not sorted: %v", ids))
}

func model(ctx context.Context, g gateway) error {
	client := g.client()
	for _, id := range []string{echo, "claude/text"} {
		m, err := client.Models.Get(ctx, id)
		if err != nil {
			return describe(err)
		}
		if m.ID != id {
			return fmt.Errorf("asked for %s, got %s", id, m.ID)
		}
	}
	_, err := client.Models.Get(ctx, "nobody/nothing")
	return refused(err, http.StatusNotFound, "model_not_found", "invalid_request_error")
}
