package hostile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/harness"
)

const (
	teamSecret    = "team-credential-7fe2a1c94b"
	foreignSecret = "aws-secret-of-this-machine-51"
)

// A listener is an address of the operator's own, which notes what it is told and repeats it as an error.
func listener(t *testing.T) (url string, told chan string) {
	t.Helper()
	said := make(chan string, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said <- fmt.Sprint(r.Header)
		w.Header().Set("X-Modelgate-Cost-Usd", "0")
		w.Header().Set("X-Modelgate-Forged", "yes")
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"no such key: %s"}}`, r.Header.Get("Authorization"))
	}))
	t.Cleanup(s.Close)
	return s.URL, said
}

func TestPoint2CredentialsStayWithTheirHosts(t *testing.T) {
	team, told := listener(t)
	evil, evilTold := listener(t)
	dir := t.TempDir()
	t.Setenv("TEAM_KEY", teamSecret)
	t.Setenv("AWS_SECRET_ACCESS_KEY", foreignSecret)
	host := strings.TrimPrefix(team, "http://")
	g := harness.Run(t, dir, "--credential-env", "TEAM_KEY=http://"+host, "--credential-file",
		filepath.Join(dir, "secrets")+"/=http://"+host)

	apply := func(document string) (string, error) {
		return harness.Command(t, document, "config", "apply", "--data", dir, "-f", "-")
	}
	t.Run("an operator's endpoint gets none", func(t *testing.T) {
		for variable, endpoint := range map[string]string{"TEAM_KEY": evil, "AWS_SECRET_ACCESS_KEY": evil, "PATH": team} {
			out, err := apply(fmt.Sprintf("kind: Provider\nname: evil\nvendor: openai\nendpoint: %s\ncredential: {env: %s}\n",
				endpoint, variable))
			require.Error(t, err)
			require.Contains(t, out, "--credential-env "+variable)
		}
		for _, file := range []string{filepath.Join(dir, "pepper"), "/proc/self/environ",
			filepath.Join(dir, "secrets", "..", "pepper")} {
			out, err := apply(fmt.Sprintf("kind: Provider\nname: evil\nvendor: openai\nendpoint: %s\ncredential: {file: %s}\n",
				team, file))
			require.Error(t, err)
			require.NotContains(t, out, foreignSecret)
		}
		require.Empty(t, evilTold, "nobody was asked")
	})

	_,
		err := apply(
		fmt.Sprintf("kind: Provider\nname: team\nvendor: openai\nendpoint: %s\ncredential: {env: TEAM_KEY}\n---\nkind: Route\nname: r\npath_prefix: /r/\nprovider: team\n", team))
	require.NoError(t, err)

	t.Run("a Route does not repeat it", func(t *testing.T) {
		var answer *http.Response
		harness.Eventually(t, "the route is there", func() error {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL+"/r/x", http.NoBody)
			if err != nil {
				return err
			}
			r.Header.Set("Authorization", "Bearer "+g.Key)
			if answer, err = g.Client.Do(r); err != nil {
				return err
			}
			if answer.StatusCode != http.StatusUnauthorized || answer.Header.Get("X-Modelgate-Provider") == "" {
				_ = answer.Body.Close()
				return fmt.Errorf("status %d", answer.StatusCode)
			}
			return nil
		})
		defer answer.Body.Close()
		var body struct {
			Error struct{ Message string }
		}
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&body))
		require.Contains(t, <-told, teamSecret, "it does go to its own host")
		require.Equal(t, "no such key: Bearer [redacted]", body.Error.Message)
		require.NotContains(t, fmt.Sprint(answer.Header), teamSecret)
		require.Empty(t, answer.Header.Get("X-Modelgate-Cost-Usd"))
		require.Empty(t, answer.Header.Get("X-Modelgate-Forged"))
	})

	t.Run("Envoy has no environment", func(t *testing.T) {
		environment, err := os.ReadFile("/proc/" + strconv.Itoa(child(t, g.PID())) + "/environ")
		require.NoError(t, err)
		require.Empty(t, string(environment))
	})

	t.Run("nothing tells it", func(t *testing.T) {
		said := g.Output() + harness.Must(t, "", "config", "get", "providers", "--data", dir, "-o", "json")
		out, _ := harness.Command(t, "", "doctor", "--data", dir)
		require.NotContains(t, said+out, teamSecret)
		require.NotContains(t, said+out, foreignSecret)
	})
}

// child returns the process whose parent is of that id.
func child(t *testing.T, parent int) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, after, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(after)
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			require.NoError(t, err)
			return pid
		}
	}
	t.Fatal("it has no child")
	return 0
}
