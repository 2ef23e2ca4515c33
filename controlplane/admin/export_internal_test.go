package admin

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestEveryKindIsExportedOrLeftOutOnPurpose(t *testing.T) {
	without := []string{"keys", "accounts", "admintokens", // their secrets are in no file
		"listings", "identitygroups", // the gateway writes them
		"auditsinks", "retentions", "approvalrules"} // no prune may delete the proof, nor what takes a second person
	for _, kind := range configv1.Kinds() {
		require.NotEqual(t, slices.Contains(without, kind.Plural), slices.Contains(exportedKinds[:], kind.Plural),
			kind.Plural)
	}
	require.Len(t, configv1.Kinds(), len(without)+len(exportedKinds))
}
