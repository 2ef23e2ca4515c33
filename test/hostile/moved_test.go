package hostile

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/harness"
)

// A request that is under way has its credentials since it began. An operator who moves a provider meanwhile, with a
// credential of their own, or deletes it and makes it anew, gets none of those.
func TestPoint2ARequestUnderWayDoesNotFollowAMovedProvider(t *testing.T) {
	t.Parallel()
	const ownSecret = "the-operators-own-credential"
	team, _ := listener(t)
	evil, evilTold := listener(t)
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(slow.Close)
	dir := t.TempDir()
	g := harness.Run(t, dir)
	provider := func(name, endpoint, credential string) string {
		return fmt.Sprintf("kind: Provider\nname: %s\nvendor: openai\nendpoint: %s\ncredential: {value: %s}\n---\n", name,
			endpoint, credential)
	}
	apply := func(documents ...string) {
		harness.Must(t, strings.Join(documents, ""), "config", "apply", "--data", dir, "-f", "-")
	}
	ask := func(model string) (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions",
			strings.NewReader(`{"model":"`+model+`","messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			return 0, err
		}
		r.Header.Set("Authorization", "Bearer "+g.Key)
		r.Header.Set("Content-Type", "application/json")
		answer, err := g.Client.Do(r)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	apply(provider("team", team, teamSecret), provider("slow", slow.URL, ownSecret),
		"kind: Model\nname: m\ntargets:\n- {provider: slow, model: x}\n- {provider: team, model: x, priority: 1}\n")
	ended := make(chan error, 1)
	harness.Eventually(t, "the model is there", func() error {
		go func() {
			_, err := ask("m")
			ended <- err
		}()
		select {
		case <-arrived:
			return nil
		case err := <-ended:
			return fmt.Errorf("it is not planned yet: %w", err)
		}
	})
	apply(provider("team", evil, ownSecret))
	var seen []string
	harness.Eventually(t, "the provider has moved", func() error {
		if _, err := ask("team/x"); err != nil {
			return err
		}
		for len(evilTold) > 0 {
			header := <-evilTold
			seen = append(seen, header)
			if strings.Contains(header, ownSecret) {
				return nil
			}
		}
		return fmt.Errorf("it has not")
	})
	close(release)
	require.NoError(t, <-ended)
	for len(evilTold) > 0 {
		seen = append(seen, <-evilTold)
	}
	require.NotContains(t, strings.Join(seen, "\n"), teamSecret)
}
