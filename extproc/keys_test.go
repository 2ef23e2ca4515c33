package extproc

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/xdsclient"
)

// allKeys is a response with n keys, as different from each other as those of a large company are, in forty tariffs.
func allKeys(t *testing.T, n int) *discoveryv3.DeltaDiscoveryResponse {
	t.Helper()
	r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: xdsclient.TypeURL(&configv1.Key{}), SystemVersionInfo: "1",
		Nonce: "keys"}
	for i := range n {
		hash := sha256.Sum256(fmt.Append(nil, i))
		k := &configv1.Key{
			Name: fmt.Sprintf("key_%026d", i), DisplayName: fmt.Sprintf("service number %d", i), Hash: hash[:], Hint: "abcd",
			Organization: fmt.Sprintf("organization-%d", i%100), Project: fmt.Sprintf("project-%d", i%1000),
			Models: []string{"openai/*"},
			Limits: []*configv1.Limit{
				{Domain: "requests", Unit: configv1.Unit_MINUTE, RequestsPerUnit: uint64(100 + i%40)},
				{Domain: "tokens", Unit: configv1.Unit_DAY, RequestsPerUnit: 1_000_000},
			},
			Budgets:  []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: "100"}},
			Metadata: map[string]string{"ticket": fmt.Sprintf("REQ-%d", i)},
		}
		packed, err := anypb.New(k)
		require.NoError(t, err)
		sum := sha256.Sum256(packed.GetValue())
		r.Resources = append(r.Resources, &discoveryv3.Resource{Name: k.GetName(), Version: hex.EncodeToString(sum[:]),
			Resource: packed})
	}
	return r
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A hundred thousand keys take less than 40 MB, of which little does not depend on how many there are. That is
// measured with a fifth of them here, and with as many as the environment says: MODELGATE_TEST_KEYS=100000.
func TestKeysTakeLittleMemory(t *testing.T) {
	n := 20_000
	if text := os.Getenv("MODELGATE_TEST_KEYS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	c, plane := startConfigClient(t)
	s := <-plane.streams
	s.subscriptions(t)
	s.send(t, "1", &configv1.Settings{}, nil, &configv1.Settings{Name: "default", KeyPepper: []byte("p")})
	for _, of := range []proto.Message{
		&configv1.ResolvedProvider{}, &configv1.Model{}, &configv1.Route{}, &configv1.Catalog{}, &configv1.Listing{},
		&configv1.Organization{}, &configv1.Project{}, &rlsv3.RateLimitConfig{},
	} {
		s.send(t, "1", of, nil)
	}
	before := heap()
	require.NoError(t, s.Send(allKeys(t, n)))
	_, err := s.Recv()
	require.NoError(t, err)
	require.Equal(t, n, c.current.Load().Keyring.Len())
	size := heap() - before
	t.Logf("%.1f MB", float64(size)/1e6)
	require.Less(t, size, int64(370*n+3_000_000))

	revoked := auth.Hash(sha256.Sum256([]byte("7")))
	require.NotNil(t, c.current.Load().Keyring.ByHash(revoked, time.Now()))
	s.send(t, "2", &configv1.Key{}, []string{fmt.Sprintf("key_%026d", 7)})
	require.Nil(t, c.current.Load().Keyring.ByHash(revoked, time.Now()))
}
