// Package azure is the provider Azure OpenAI, in both styles of its API: v1, where the body names the deployment
// (https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle), and the older one, where the path names
// it. Other models of Azure AI Foundry have the same dialect.
//
// A model is a deployment with a name chosen by its owner. With an api_version, the name is in the path.
package azure

import (
	"net/url"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/dialects/responses"
)

// Provider returns the provider. It is safe for concurrent use.
func Provider() provider.Provider {
	d := openaicompat.Dialect{Vendor: "azure", AsReceived: true, Locate: locate, SearchTool: true,
		Hints: []string{"cache_control"}}
	return provider.Provider{
		Name:              "azure",
		Fields:            []string{"api_version"},
		CredentialEnv:     "AZURE_OPENAI_API_KEY",
		CredentialHosts:   []string{"*.openai.azure.com", "*.cognitiveservices.azure.com"},
		CredentialHeaders: []string{"api-key", "authorization"},
		Sign:              sign,
		Cloud:             configv1.Azure,
		// https://learn.microsoft.com/azure/ai-foundry/openai/how-to/managed-identity
		CloudScope:  "https://cognitiveservices.azure.com/.default",
		DecodeError: d.DecodeError,
		Chat: responses.New(openaicompat.New(d), responses.Dialect{Vendor: "azure", Searches: true, InBand: d.InBand,
			Path: locateResponses}),
		Completion:        openaicompat.NewCompletion(d),
		Embedding:         openaicompat.NewEmbedding(d),
		Batches:           batches(d),
		FineTuning:        fineTuning(),
		Realtime:          realtime,
		Locate:            locateNative,
		ChatOverResponses: true,
		Native: []string{
			"/responses", "/images/generations", "/images/edits", "/audio/speech", "/audio/transcriptions",
			"/audio/translations",
		},
	}
}

const v1 = "/openai/v1"

// locate returns where an operation is, by the configured endpoint: it may be given with /openai/v1 or without,
// or be Azure AI model inference's, which ends with /models.
func locate(path string, t provider.Target) string {
	version := t.Config.GetApiVersion()
	base, query := strings.TrimRight(t.Config.GetEndpoint(), "/"), ""
	if version != "" {
		query = "?api-version=" + url.QueryEscape(version)
	}
	switch {
	case strings.HasSuffix(base, v1), strings.HasSuffix(base, "/models"):
		return path + query
	case version == "" && strings.HasSuffix(base, "/openai"):
		return strings.TrimPrefix(v1, "/openai") + path
	case version == "":
		return v1 + path
	}
	deployment := "/deployments/" + url.PathEscape(t.Model) + path + query
	if strings.HasSuffix(base, "/openai") {
		return deployment
	}
	return "/openai" + deployment
}

// firstResponses is the first version of the older API that has responses. They are not below a deployment.
const firstResponses = "2025-03-01"

// locateResponses returns where responses are, and whether the endpoint has them.
func locateResponses(t provider.Target) (string, bool) {
	version := t.Config.GetApiVersion()
	base := strings.TrimRight(t.Config.GetEndpoint(), "/")
	switch {
	case strings.HasSuffix(base, "/models"):
		return "", false
	case version == "" || strings.HasSuffix(base, v1):
		return locate("/responses", t), true
	case version[0] >= '0' && version[0] <= '9' && version < firstResponses:
		return "", false
	}
	path := "/responses?api-version=" + url.QueryEscape(version)
	if strings.HasSuffix(base, "/openai") {
		return path, true
	}
	return "/openai" + path, true
}

// locateNative returns where an operation is that passes as it is, and whether the endpoint has it.
func locateNative(path string, t provider.Target) (string, bool) {
	if path == "/responses" {
		return locateResponses(t)
	}
	return locate(path, t), true
}

// sign sends a key as Azure wants it, and a token of Microsoft Entra, which is a JWT, as bearer.
func sign(r *provider.Request, s provider.Signing) error {
	if strings.HasPrefix(s.Credential.Reveal(), "eyJ") {
		return openaicompat.Bearer(r, s)
	}
	if !s.Credential.IsZero() {
		r.Header.Set("Api-Key", s.Credential.Reveal())
	}
	return nil
}
