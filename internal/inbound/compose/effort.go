package compose

import (
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/reasoning"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// efforts are the members of a chat completion that say how much a model reasons.
var efforts = []string{"reasoning_effort", "thinking", "output_config", "reasoning"}

// Encode has a vendor encode a chat completion that was made of a request of another dialect. A model that does not
// have the effort gets the nearest one that it has, or none: clients such as coding agents always ask for one.
func Encode(v *provider.Provider, r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer,
	error) {
	r = For(r, v.Name, t)
	sent, answer, err := v.Chat.Encode(r, t)
	for _, near := range []bool{true, false} {
		e, isError := errors.AsType[*openai.Error](err)
		if !isError || e.Code != openai.CodeUnsupportedParameter || !slices.Contains(efforts, e.Param) {
			break
		}
		param := e.Param
		if other := withEffort(r, t, near); other != nil {
			if sent, answer, err = v.Chat.Encode(other, t); err == nil && !slices.Contains(sent.Adjusted, param) {
				sent.Adjusted = append(sent.Adjusted, param)
			}
		}
	}
	return sent, answer, err
}

// withEffort returns a request with the nearest effort that the model has, or without any. It returns nil if there is
// no such request.
func withEffort(r *openai.ChatRequest, t provider.Target, near bool) *openai.ChatRequest {
	asked, has := r.Get("reasoning_effort"), t.Can().GetEfforts()
	if near && (asked.Kind() != '"' || len(has) == 0) {
		return nil
	}
	ms := schema.Without(schema.Members(r.Sent().Body), efforts...)
	if near {
		ms = append(ms, schema.Member{Name: "reasoning_effort",
			Value: jsontext.Value(openai.AppendString(nil, reasoning.Nearest(openai.Unquote(asked), has)))})
	}
	other, err := r.Carrier().ParseChatRequest(schema.AppendObject(nil, ms))
	if err != nil { // it was read
		return nil
	}
	other.Translated = true
	return other
}
