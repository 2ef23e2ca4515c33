package config

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
	places := map[uint32]bool{}
	for _, kind := range configv1.Kinds() {
		place := kind.Options.GetExport()
		require.NotEqual(t, slices.Contains(without, kind.Plural), place > 0, kind.Plural)
		require.False(t, places[place] && place > 0, "%s: another kind has its place", kind.Plural)
		places[place] = true
	}
}
