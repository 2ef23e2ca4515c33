package exchange

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// byRoute says what is left to do for a path that the gateway does not serve.
const byRoute = " An operator can pass a path to a provider as it is, with an object of kind Route."

// missing are groups of operations that clients may expect, by the beginning of their paths, and that OpenAI's API has none of.
var missing = map[string]string{"music": "music", "video": "video", "videos": "video", "3d": "3D models", "3d-models": "3D models"}

// notServed says why there is nothing under a path, as far as it is one that clients have reason to expect something of.
func notServed(method, path string) *openai.Error {
	e := unknownURL(method, path)
	group, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	var why string
	switch {
	case missing[group] != "":
		why = "The API that this gateway serves has no operation for " + missing[group] + "."
	case group == "vision":
		why = "Images are seen by chat models: send them as parts of messages to /v1/chat/completions."
	case group == "responses":
		why = "Responses that are stored cannot be reached here: the gateway does not know which provider stores them."
	default:
		return e
	}
	e.Code, e.Message = "unsupported_endpoint", e.Message+". "+why+byRoute
	return e
}

// waitingRetry is after what time clients are to ask a provider again that waits for its credential.
const waitingRetry = 2 * time.Second

// noProvider is the error for a model of which no target can be asked.
func (c *Config) noProvider(model string) *openai.Error {
	head, _, _ := strings.Cut(model, "/")
	targets := []*configv1.Target{{Provider: head}}
	if m := c.Models[model]; m != nil {
		targets = m.GetTargets()
	}
	for _, t := range targets {
		if p := c.Providers[t.GetProvider()]; p.isWaiting() {
			return waits()
		}
	}
	return &openai.Error{Status: http.StatusServiceUnavailable, Type: openai.TypeServer, Code: "no_provider",
		Message: fmt.Sprintf("No provider of the model `%s` is enabled.", model)}
}

func (p *Provider) isWaiting() bool { return p != nil && p.waiting }

func waits() *openai.Error {
	return &openai.Error{Status: http.StatusServiceUnavailable, Type: openai.TypeServer, Code: "no_provider", RetryAfter: waitingRetry,
		Message: "The gateway has no valid credential for the provider at the moment, and is getting one. Please retry."}
}
