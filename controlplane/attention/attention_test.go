package attention_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
)

var now = time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)

func key(name string, expires time.Duration) *configv1.Key {
	return &configv1.Key{Name: name, DisplayName: "of " + name, ExpiresAt: timestamppb.New(now.Add(expires))}
}

func TestManyOfAKindAreCounted(t *testing.T) {
	var keys []*configv1.Key
	for i := range 50 {
		keys = append(keys, key(fmt.Sprintf("key_%02d", i), time.Hour))
	}
	all := attention.Waiting(attention.Facts{Now: now, Keys: keys})
	require.Len(t, all, 21)
	require.Equal(t, adminapi.Attention{Kind: "key_expires", Severity: "warning", Path: "/keys",
		Message: "30 more keys expire within 7 days."}, all[20])
}
