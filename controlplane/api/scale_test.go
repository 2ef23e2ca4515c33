package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/api"
)

// BenchmarkKeys measures what people wait for where there are 100,000 keys.
func BenchmarkKeys(b *testing.B) {
	const count = 100_000
	bench := newBenchOf(b)
	keys := map[string]configv1.Object{}
	var ops []clientv3.Op
	for i := range count {
		hash := bench.hasher.Hash(fmt.Sprint(i))
		k := &configv1.Key{Name: fmt.Sprintf("key_%08d", i), DisplayName: fmt.Sprintf("Service number %d", i), Hash: hash[:],
			Hint: "abcd", Organization: fmt.Sprint("org-", i%100)}
		keys[k.GetName()] = k
		value, err := configv1.Marshal(k)
		require.NoError(b, err)
		if ops = append(ops, clientv3.OpPut("/modelgate/v1/keys/"+k.GetName(), string(value))); len(ops) == 100 {
			_, err := bench.etcd.Txn(b.Context()).Then(ops...).Commit()
			require.NoError(b, err)
			ops = nil
		}
	}
	bench.plane.keys = func() (int64, map[string]configv1.Object) { return 1, keys }
	handler := api.New(bench.config)
	for name, ask := range map[string][3]string{
		"page":   {"GET", "/admin/v1/keys?limit=100&after=key_00050000", ""},
		"search": {"GET", "/admin/v1/keys?limit=100&q=number+9999", ""},
		"filter": {"GET", "/admin/v1/keys?limit=100&organization=org-7", ""},
		"create": {"POST", "/admin/v1/keys", `{"display_name":"x"}`},
		"put":    {"PUT", "/admin/v1/keys/key_00000007", `{"name":"key_00000007","display_name":"%d"}`},
		"apply":  {"PUT", "/admin/v1/providers/p", `{"name":"p","vendor":"echo","models":["%d"]}`},
	} {
		b.Run(name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				n++
				r := httptest.NewRequest(ask[0], ask[1],
					strings.NewReader(strings.Replace(ask[2], "%d", fmt.Sprint(time.Now().UnixNano(), n), 1)))
				r.Header.Set("Authorization", "Bearer "+token)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				require.Less(b, w.Code, http.StatusMultipleChoices, w.Body.String())
			}
		})
	}
}
