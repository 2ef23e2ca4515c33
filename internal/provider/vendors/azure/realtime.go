package azure

import (
	"net/url"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// realtime returns the address of sessions
// (https://learn.microsoft.com/azure/ai-foundry/openai/how-to/realtime-audio-websockets): below v1 the
// deployment is the parameter model. With an api-version by date it is the parameter deployment.
func realtime(t provider.Target) (string, error) {
	base, query := strings.TrimRight(t.Config.GetEndpoint(), "/"), url.Values{}
	if version := t.Config.GetApiVersion(); version != "" {
		query.Set("api-version", version)
	}
	if dated(t.Config) {
		query.Set("deployment", t.Model)
	} else {
		query.Set("model", t.Model)
	}
	path := "/realtime"
	switch {
	case strings.HasSuffix(base, "/models"):
		return "", openai.CodeUnsupportedEndpoint.On("model",
			"The provider '%s' is Azure AI model inference, which does not serve the Realtime API. Choose another model.",
			t.Config.GetName())
	case strings.HasSuffix(base, v1):
	case strings.HasSuffix(base, "/openai"):
		if !dated(t.Config) {
			path = strings.TrimPrefix(v1, "/openai") + path
		}
	case dated(t.Config):
		path = "/openai" + path
	default:
		path = v1 + path
	}
	return path + "?" + query.Encode(), nil
}
