package adminflags

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

func TestTablesShowTheColumnsOfAKind(t *testing.T) {
	soon := timestamppb.New(time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC))
	limits := []*configv1.Limit{{Domain: "requests", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 60},
		{Domain: "concurrency", RequestsPerUnit: 2, Model: "a/*"}}
	for _, c := range []struct {
		object configv1.Object
		header []string
		row    []string
	}{
		{&configv1.Provider{Name: "a", Vendor: "openai", Endpoint: "https://x"},
			[]string{"NAME", "VENDOR", "ENDPOINT", "STATE"}, []string{"a", "openai", "https://x", "active"}},
		{&configv1.Model{Name: "a", Targets: []*configv1.Target{{Provider: "p", Model: "m"}, {Provider: "q", Model: "n"}}},
			[]string{"NAME", "TARGETS", "STATE"}, []string{"a", "p/m, q/n", "active"}},
		{&configv1.Key{Name: "a"},
			[]string{"NAME", "HINT", "ORGANIZATION", "PROJECT", "MODELS", "OWNER", "EXPIRES", "STATE", "ID"},
			[]string{"", "...", "", "", "all", "", "never", "active", "a"}},
		{&configv1.Key{Name: "a", DisplayName: "x", Hint: "abcd", Models: []string{"m", "n"}, ExpiresAt: soon},
			[]string{"NAME", "HINT", "ORGANIZATION", "PROJECT", "MODELS", "OWNER", "EXPIRES", "STATE", "ID"},
			[]string{"x", "...abcd", "", "", "m, n", "", "2099-01-02T03:04:05Z", "active", "a"}},
		{&configv1.Organization{Name: "a", Limits: limits, Budgets: []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "1"}}},
			[]string{"NAME", "LABEL", "LIMITS", "BUDGETS", "STATE"},
			[]string{"a", "", "60 requests per minute, 2 at once of a/*", "$1 per day", "active"}},
		{&configv1.Account{Name: "a"}, []string{"NAME", "LABEL", "ROLE", "STATE"}, []string{"a", "", "none", "disabled"}},
		{&configv1.Account{Name: "a", Role: configv1.Role_OWNER},
			[]string{"NAME", "LABEL", "ROLE", "STATE"}, []string{"a", "", "owner", "active"}},
		{&configv1.RateLimit{Name: "a", Domain: "tokens", Descriptors: []*configv1.RateLimitDescriptor{{}, {}}},
			[]string{"NAME", "DOMAIN", "DESCRIPTORS", "STATE"}, []string{"a", "tokens", "2", "active"}},
	} {
		header, row := columns(configv1.KindOf(c.object), &console.Text{})
		require.Equal(t, c.header, header)
		require.Equal(t, c.row, row(adminapi.Item{Name: "a", Object: c.object}))
	}
}
