package azure

import (
	"net/url"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/tuning"
)

// fineTuning is OpenAI's API at Azure: https://learn.microsoft.com/azure/foundry/reference/rest for v1, and
// https://learn.microsoft.com/rest/api/azureopenai/fine-tuning with an api-version. Files are imported after their
// upload, and a model that was made is served only by a deployment. Those are made by Azure's control plane
// (https://learn.microsoft.com/azure/foundry/openai/how-to/fine-tuning-deploy), which wants a token for
// management.azure.com and is no part of the endpoint, so the gateway can only say so.
func fineTuning() *tuning.OpenAI {
	return tuning.New(tuning.Dialect{
		Locate:      locateJobs,
		Older:       dated,
		AwaitsFiles: true,
		Notice: "Azure serves this model only once somebody has deployed it there, which the gateway cannot do. Ask your operator to name the deployment " +
			"as the target of the Model in the gateway's configuration is named, or to name the deployment as that target.",
	})
}

// dated reports whether the configured API is one of those before v1, which have versions by date.
func dated(c *configv1.Provider) bool {
	return c.GetApiVersion() != "" && !strings.HasSuffix(strings.TrimRight(c.GetEndpoint(), "/"), v1)
}

// locateJobs returns where an operation of files, jobs and models is, which is not below a deployment.
func locateJobs(c *configv1.Provider, path string) (string, url.Values, error) {
	base, query := strings.TrimRight(c.GetEndpoint(), "/"), url.Values{}
	if version := c.GetApiVersion(); version != "" {
		query.Set("api-version", version)
	}
	switch {
	case strings.HasSuffix(base, "/models"):
		return "", nil, openai.CodeUnsupportedOperation.On("model",
			"The provider '%s' is Azure AI model inference, which does not train models. Choose a model of an Azure OpenAI resource.", c.GetName())
	case strings.HasSuffix(base, v1):
	case strings.HasSuffix(base, "/openai"):
		if !dated(c) {
			path = strings.TrimPrefix(v1, "/openai") + path
		}
	case dated(c):
		path = "/openai" + path
	default:
		path = v1 + path
	}
	return path, query, nil
}
