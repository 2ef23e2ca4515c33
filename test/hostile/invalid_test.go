package hostile

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// TestInvalidObjectsAreNotOutOfForce puts objects into the store that are not valid, as an upgrade with narrower
// bounds finds them, or a restored backup has them. Requests to which they would apply are refused, also after a
// restart.
func TestInvalidObjectsAreNotOutOfForce(t *testing.T) {
	t.Parallel()
	b := &biller{Gateway: harness.Run(t, t.TempDir()), t: t}
	b.Apply(t, &configv1.Organization{Name: "acme"}, &configv1.Organization{Name: "other"})
	_, acme := b.CreateKey(t, "acme", "")
	_, other := b.CreateKey(t, "other", "")
	asked := func(key string) (int, string) {
		answer, leave := b.ask(key, "/v1/chat/completions", `{"model":"echo/echo","messages":[{"role":"user","content":"hi"}]}`)
		defer leave()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(body)
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(b.Dir, "run", "etcd.sock")},
		Logger: zap.NewNop()})
	require.NoError(t, err)
	defer etcd.Close()
	deep := strings.Repeat("stream || ", 500) + "stream" // longer than an expression may be
	for kind, stored := range map[string]string{
		"policies/deep":   `{"name":"deep","organization":"acme","rules":[{"name":"r","deny":"` + deep + `"}]}`,
		"guardrails/long": `{"name":"long","organization":"acme","rules":[{"name":"r","mode":"BLOCK","patterns":["` + strings.Repeat("a{1000}", 20) + `"]}]}`,
		"ratelimits/when": `{"name":"when","domain":"requests","when":"` + deep + `","descriptors":[{"key":"organization","value":"acme","rateLimit":{"unit":"MINUTE","requestsPerUnit":9}}]}`,
	} {
		plural, name, _ := strings.Cut(kind, "/")
		expect := func(want bool) {
			t.Helper()
			harness.Eventually(t, kind, func() error {
				status, body := asked(acme)
				if want != (status == http.StatusForbidden && strings.Contains(body, "'"+name+"'") &&
					strings.Contains(body, `"code":"policy_denied"`)) || !want && status != http.StatusOK {
					return fmt.Errorf("%d %s", status, body)
				}
				return nil
			})
			status, body := asked(other)
			require.Equal(t, http.StatusOK, status, body)
		}
		_, err := etcd.Put(t.Context(), "/modelgate/v1/"+kind, stored)
		require.NoError(t, err)
		expect(true)
		harness.Eventually(t, "it needs attention", func() error {
			var list any
			if err := b.admin("/admin/v1/attention", nil, &list); err != nil || !strings.Contains(fmt.Sprint(list), name) {
				return fmt.Errorf("%v %w", list, err)
			}
			return nil
		})
		if plural == "policies" {
			b.Stop(t)
			b.Gateway = harness.Run(t, b.Dir)
			status, body := asked(acme)
			require.Equal(t, http.StatusForbidden, status, "from the first request on: %s", body)
		}
		_, err = etcd.Delete(t.Context(), "/modelgate/v1/"+kind)
		require.NoError(t, err)
		expect(false)
	}
}
