package mistral

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/reported"
)

// moderationCodec implements provider.ModerationCodec: https://docs.mistral.ai/capabilities/guardrailing. The vendor
// does not say whether a text is flagged, and has categories of its own.
type moderationCodec struct{}

// Encode implements provider.ModerationCodec.
func (moderationCodec) Encode(r *openai.NativeRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	return provider.Request{Path: "/moderations", Header: http.Header{"Content-Type": {"application/json"}},
		Body: r.WithModel(t.Model)}, moderationAnswer{}, nil
}

// A moderation is the verdict on one text, as OpenAI has it. Flagged is whether any category applies.
type moderation struct {
	Flagged    bool            `json:"flagged"`
	Categories map[string]bool `json:"categories"`
	Scores     jsontext.Value  `json:"category_scores"`
}

// moderationAnswer implements provider.Answer.
type moderationAnswer struct{ provider.Unstreamed }

// Decode implements provider.Answer.
func (moderationAnswer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	var v struct {
		ID      string       `json:"id"`
		Model   string       `json:"model"`
		Results []moderation `json:"results"`
	}
	var told struct {
		Usage reported.Usage `json:"usage"`
	}
	err := json.Unmarshal(body, &v, json.Deterministic(true))
	if err == nil {
		err = json.Unmarshal(body, &told)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	case v.Results == nil:
		return fmt.Errorf("%w: it has no results", provider.ErrNotAnAnswer)
	}
	v.Model = asked.Model
	for i := range v.Results {
		for _, applies := range v.Results[i].Categories {
			v.Results[i].Flagged = v.Results[i].Flagged || applies
		}
	}
	rendered, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	chat.EmitRendered(rendered, told.Usage.OpenAI(), out)
	return nil
}
