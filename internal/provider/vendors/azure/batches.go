package azure

import (
	"net/url"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/dialects/vendorbatch"
)

// batches run at Azure (https://learn.microsoft.com/azure/ai-foundry/openai/how-to/batch), on deployments of the type
// Global-Batch or Data-Zone-Batch, and of chat completions alone.
func batches(d openaicompat.Dialect) provider.Batcher {
	return &vendorbatch.OpenAI{
		Codecs: vendorbatch.Codecs{Vendor: d.Vendor, Alike: true, Chat: openaicompat.New(d)},
		Locate: func(c *configv1.Provider, path string) (string, url.Values, error) {
			if strings.HasSuffix(strings.TrimRight(c.GetEndpoint(), "/"), "/models") {
				return "", nil, openai.CodeUnsupportedEndpoint.On("endpoint",
					"The provider '%s' is Azure AI model inference, which has no batches of its own.", c.GetName())
			}
			return locateJobs(c, path)
		},
		Endpoint:    func(endpoint string) string { return strings.TrimPrefix(endpoint, "/v1") },
		MaxLines:    100_000,
		MaxBytes:    200_000_000,
		DecodeError: d.DecodeError,
	}
}
