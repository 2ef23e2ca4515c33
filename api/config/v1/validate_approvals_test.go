package configv1_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestValidateApprovalRule(t *testing.T) {
	for name, c := range map[string]struct {
		rule  *configv1.ApprovalRule
		field string
	}{
		"keys":              {&configv1.ApprovalRule{Name: "a", Keys: true}, ""},
		"a budget":          {&configv1.ApprovalRule{Name: "a", BudgetUsdDay: "0"}, ""},
		"nothing waits":     {&configv1.ApprovalRule{Name: "a"}, "without, no change waits"},
		"no amount":         {&configv1.ApprovalRule{Name: "a", BudgetUsdMonth: "-1"}, "budget_usd_month"},
		"too much":          {&configv1.ApprovalRule{Name: "a", BudgetUsdDay: "1000001"}, "budget_usd_day"},
		"a project alone":   {&configv1.ApprovalRule{Name: "a", Keys: true, Project: "p"}, "project"},
		"a bad name":        {&configv1.ApprovalRule{Name: "A", Keys: true}, "name"},
		"unknown approvers": {&configv1.ApprovalRule{Name: "a", Keys: true, Approvers: 9}, "approvers"},
		"too short": {&configv1.ApprovalRule{Name: "a", Keys: true, ExpiresAfter: durationpb.New(time.Minute)},
			"expires_after"},
		"too long": {&configv1.ApprovalRule{Name: "a", Keys: true, ExpiresAfter: durationpb.New(91 * 24 * time.Hour)},
			"expires_after"},
	} {
		err := configv1.Validate(c.rule, nil).Err()
		if c.field == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.field, name)
		}
	}
	require.Equal(t, 7*24*time.Hour, (&configv1.ApprovalRule{}).Wait())
}
