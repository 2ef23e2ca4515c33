package pitfalls

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/harness"
)

var errNotYet = errors.New("not yet")

// overloaded has OpenAI's part of the worker refuse with a status, and the other answer.
func (g limitGateway) overloaded(status int, header ...string) {
	g.worker.answers(func(w http.ResponseWriter, r *http.Request, a asking) {
		if strings.HasPrefix(a.path, "/openai") {
			answerStatus(w, status, header...)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(messages.unary(completion{text: "yes", stop: "stop", usage: counts{prompt: 3, output: 2}})))
	})
}

// refusals is how often OpenAI's part of the worker was asked.
func (g limitGateway) refusals() int {
	g.worker.mu.Lock()
	defer g.worker.mu.Unlock()
	n := 0
	for _, a := range g.worker.asked {
		if strings.HasPrefix(a.path, "/openai") {
			n++
		}
	}
	return n
}

// warm ends what an earlier row has left of cooling: a provider that answers is not cooled.
func (g limitGateway) warm(t *testing.T) {
	t.Helper()
	g.worker.answers(answerLine)
	harness.Eventually(t, "the provider is asked first again", func() error {
		r, err := g.try(g.Key, chatPath, chatOf("either", 2, ""))
		if err != nil || r.header.Get("x-modelgate-provider") != "openai" {
			return errors.Join(errNotYet, err)
		}
		return nil
	})
}

func providerCools(t *testing.T, g limitGateway) {
	g.warm(t)
	g.overloaded(http.StatusTooManyRequests, "Retry-After", "2")
	first := g.ask(t, g.Key, chatPath, chatOf("either", 2, ""))
	require.Equal(t, http.StatusOK, first.status, first.body)
	require.Equal(t, "2", first.header.Get("x-modelgate-attempts"), "the other target answers")
	harness.Eventually(t, "the provider is passed over", func() error {
		r := g.ask(t, g.Key, chatPath, chatOf("either", 2, ""))
		if r.status != http.StatusOK || r.header.Get("x-modelgate-attempts") != "" {
			return errNotYet
		}
		return nil
	})
	g.warm(t) // after the time that it named
}

func sharedQuota(t *testing.T, g limitGateway) {
	g.warm(t)
	g.overloaded(http.StatusTooManyRequests, "Retry-After", "2")
	// The client is told, and that model's provider cools for the other model too.
	r := g.ask(t, g.Key, chatPath, chatOf("openai/another", 2, ""))
	require.Equal(t, http.StatusTooManyRequests, r.status)
	require.Equal(t, 2, r.number("retry-after"))
	asked := g.refusals()
	for range 10 {
		r := g.ask(t, g.Key, chatPath, chatOf("either", 2, ""))
		require.Equal(t, http.StatusOK, r.status)
	}
	require.Equal(t, asked, g.refusals(), "it was not asked again")
	g.warm(t)
}

func boundedRetries(t *testing.T, g limitGateway) {
	g.warm(t)
	g.worker.answers(func(w http.ResponseWriter, _ *http.Request, _ asking) {
		answerStatus(w, http.StatusInternalServerError)
	})
	r := g.ask(t, g.Key, chatPath, chatOf("either", 2, ""))
	require.Equal(t, http.StatusInternalServerError, r.status)
	require.Equal(t, 2, g.reached(), "an attempt for each target")
	require.Equal(t, "false", r.header.Get("x-should-retry"), "the attempts that may be made have been made")
}

func clientsMistake(t *testing.T, g limitGateway) {
	g.warm(t)
	g.overloaded(http.StatusBadRequest)
	for range 5 {
		require.Equal(t, http.StatusBadRequest, g.ask(t, g.Key, chatPath, chatOf("either", 2, "")).status)
	}
	require.Equal(t, 5, g.refusals(), "it is asked each time, and nobody else")
}
