package openaicompat

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// NewCompletion returns the codec of a dialect's legacy completions. Of the dialect's members those about messages
// have no part in it. The dialect must not be modified afterwards.
func NewCompletion(d Dialect) provider.CompletionCodec { return &completionCodec{d} }

type completionCodec struct{ dialect Dialect }

// Encode implements provider.CompletionCodec.
func (c *completionCodec) Encode(r *openai.CompletionRequest, t provider.Target) (provider.Request, provider.Answer,
	error) {
	if c.dialect.OnePrompt && len(r.Prompts) != 1 {
		return provider.Request{}, nil, openai.CodeUnsupportedValue.On("prompt",
			"Invalid 'prompt': the provider '%s' takes one text. Send each prompt in a request of its own.", c.dialect.Vendor)
	}
	changes := newChanges(&r.Object, &c.dialect, t)
	if err := changes.judge(); err != nil {
		return provider.Request{}, nil, err
	}
	changes.model(r.Model)
	forced := changes.streamOptions(r.Stream, r.IncludeUsage)
	if err := changes.parameters(); err != nil {
		return provider.Request{}, nil, err
	}
	a := c.dialect.answer(&completionShape, r.Model, t, forced)
	a.choices = wanted(r.Get("n")) * max(1, len(r.Prompts))
	return changes.request("/completions"), a, nil
}
