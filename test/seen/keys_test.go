package seen

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/test/harness"
)

// strangers is what the rejected requests of the key that nobody has made are called on the page.
const strangers = "unknown key …7xyz"

// refused are how many requests of each key were refused.
func (s *scene) refused() map[string]int64 {
	all := map[string]int64{}
	for _, a := range s.asks {
		switch {
		case a.refuse == "unknown key":
			all[strangers]++
		case a.refuse != "":
			all[a.client.id]++
		}
	}
	return all
}

// compareKeys compares what each key did, as the admin API, the page and the command say it.
func (s *scene) compareKeys(t *testing.T) {
	v, used, refused := s.visitor(t), s.groups("key"), s.refused()
	var ids []string
	for _, k := range s.keys {
		ids = append(ids, k.id)
	}
	got, err := s.admin.KeyTraffic(t.Context(), url.Values{"key": ids})
	require.NoError(t, err)
	require.Len(t, got.Items, len(ids))
	list, out := v.page(t, "/keys").table(t, "Keys"), harness.Must(t, "", "key", "list", "--data", s.Dir)
	lines := strings.Split(out, "\n")
	names := map[string]string{}
	for i, use := range got.Items {
		g := used[use.Key]
		require.Equal(t, adminapi.KeyUse{Key: use.Key, Requests: g.Requests, Errors: g.Errors, Refused: refused[use.Key],
			CostUSD: cmp.Or(g.CostUSD, "0"), LastUsed: use.LastUsed}, use)
		require.Equal(t, g.Requests+use.Refused > 0, use.LastUsed != nil, use.Key)
		if use.LastUsed != nil {
			require.True(t, use.LastUsed.After(s.begin), use.Key)
		}
		name := fmt.Sprint("key ", i)
		names[use.Key] = name
		row := list[name]
		require.Equal(t, []string{number(use.Requests), number(use.Refused), dollars(t, use.CostUSD)},
			[]string{strings.Fields(row["Requests"])[0], row["Refused"], amount(t, row["Cost"])}, name)
		found := false
		for _, line := range lines {
			if strings.HasSuffix(line, use.Key) && !found {
				found = true
				require.Contains(t, strings.Join(strings.Fields(line), " "), strings.Join([]string{number(use.Requests),
					number(use.Errors), number(use.Refused), use.CostUSD}, " "), line)
			}
		}
		require.True(t, found, out)
	}
	rejected := map[string]int64{}
	for _, r := range got.Rejected {
		require.NotNil(t, r.Last)
		rejected[cmp.Or(r.Key, "unknown key …"+r.Hint)] = r.Refused
	}
	require.Equal(t, refused, rejected)
	rows := v.page(t, "/keys").table(t, "Rejected")
	require.Len(t, rows, len(refused))
	for id, n := range refused {
		require.Equal(t, number(n), rows[cmp.Or(names[id], id)]["Refused requests"], id)
	}
	require.Contains(t, out, strings.ReplaceAll(strangers, "…", "..."))
}
