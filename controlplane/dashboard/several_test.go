package dashboard_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Keys that are chosen in the list are disabled together.
func TestSeveralKeysAreChangedAtOnce(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	for _, name := range []string{"one", "two", "three"} {
		require.Equal(t, 200, w.post("/keys", "display_name", name).status)
	}
	disabled := func() int { return strings.Count(w.get("/keys").body, ">disabled</span>") }
	var ids []string
	boxes := regexp.MustCompile(`name="name" value="(key_[^"]+)"`)
	for _, m := range boxes.FindAllStringSubmatch(w.get("/keys").body, -1) {
		ids = append(ids, m[1])
	}
	require.Len(t, ids, 3)

	p := w.post("/keys/several", "action", "disable", "name", ids[0], "name", ids[1])
	require.Equal(t, "/keys?done=keys_disabled", p.header.Get("Location"))
	require.Equal(t, 2, disabled())
	require.Equal(t, 404, w.post("/keys/several", "action", "enable", "name", ids[0], "name", "key_of_nobody").status)
	require.Equal(t, 2, disabled(), "all or none")
	require.Equal(t, 303, w.post("/keys/several", "action", "enable", "name", ids[0], "name", ids[2]).status)
	require.Equal(t, 1, disabled())
	require.Equal(t, 404, w.post("/keys/several", "action", "revoke", "name", ids[0]).status)

	w.post("/accounts", "name", "vera", "role", "VIEWER", "password", goodPassword)
	viewer := b.browser(t)
	viewer.signIn("vera", goodPassword)
	require.NotContains(t, viewer.get("/keys").body, `type="checkbox"`)
	require.Equal(t, 403, viewer.post("/keys/several", "action", "disable", "name", ids[2]).status)
}
