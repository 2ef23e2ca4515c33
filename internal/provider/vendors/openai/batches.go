package openai

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
)

// batches run at OpenAI (https://platform.openai.com/docs/guides/batch), with its limits.
func batches(d openaicompat.Dialect) provider.Batcher {
	return &openaicompat.Batches{
		Codecs: openaicompat.Codecs{
			Vendor: d.Vendor, Alike: true,
			Chat: openaicompat.New(d), Completion: openaicompat.NewCompletion(d), Embedding: openaicompat.NewEmbedding(d),
		},
		MaxLines:    50_000,
		MaxBytes:    200_000_000,
		DecodeError: d.DecodeError,
	}
}
