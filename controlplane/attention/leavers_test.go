package attention_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
)

func TestPeopleWhoHaveLeft(t *testing.T) {
	var keys []*configv1.Key
	for i := range 7 {
		keys = append(keys, &configv1.Key{Name: fmt.Sprint("key_", i), DisplayName: "k", Owner: "heir"})
	}
	told := func(l attention.Leaver) (said []string) {
		l.Account, l.Why = "ann", "gone"
		for _, a := range attention.Waiting(attention.Facts{Now: now, Leavers: []attention.Leaver{l}}) {
			require.Equal(t, "warning", a.Severity)
			said = append(said, a.Kind+" "+a.Message)
		}
		return said
	}
	require.Equal(t, []string{"keys_of_leaver ann has left: gone, since 2026-05-20 11:00 UTC. " +
		"Keys that are disabled: key_0 (k). Who enables a key takes it over: modelgate key enable ID. " +
		"Keys that still work: key_1 (k). Disable or revoke them; who enables one again takes it over. " +
		"Keys that heir has now: key_2 (k), key_3 (k), key_4 (k), key_5 (k), key_6 (k).",
		"tokens_of_leaver ann has left: gone. Admin tokens that are refused, or have fewer scopes: adm_1. " +
			"Make new ones, and delete these."},
		told(attention.Leaver{Since: now.Add(-time.Hour), Ended: keys[:1], Kept: keys[1:2], Handed: keys[2:],
			Tokens: []*configv1.AdminToken{{Name: "adm_1"}}}))
	require.Empty(t, told(attention.Leaver{Since: now.Add(-attention.ToldOfLeavers), Ended: keys, Handed: keys}))
	require.Contains(t, told(attention.Leaver{Kept: keys})[0], "key_4 (k) and 2 more.")
}
