package openai

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/dialects/vendorbatch"
)

// batches run at OpenAI (https://platform.openai.com/docs/guides/batch), with its limits.
func batches(d openaicompat.Dialect) provider.Batcher {
	return &vendorbatch.OpenAI{
		Codecs: vendorbatch.Codecs{
			Vendor: d.Vendor, Alike: true,
			Chat: openaicompat.New(d), Completion: openaicompat.NewCompletion(d), Embedding: openaicompat.NewEmbedding(d),
		},
		MaxLines:    50_000,
		MaxBytes:    200_000_000,
		DecodeError: d.DecodeError,
	}
}
