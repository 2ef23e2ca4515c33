package seen

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/usage"
	"github.com/modelgate/modelgate/test/harness"
)

// compareCache compares what caches saved, as the admin API, the page and the command say it.
func (s *scene) compareCache(t *testing.T) {
	want, took := adminapi.CacheSums{}, map[string]int64{}
	saved, prompts, perHit := int64(0), map[string]int64{}, int64(0)
	for _, a := range s.asks {
		_, cached, _ := a.tokens()
		p := prices()[a.last().model]
		saved += cached * (p.input - p.cached)
		if cached > 0 {
			prompts[a.last().provider+"/"+a.last().model] += cached
		}
		switch a.kind {
		case "kept":
			want.Misses++
			perHit = a.cost()
		case "hit":
			want.Hits++
		default:
			continue
		}
		e, err := s.admin.Request(t.Context(), a.exchange)
		require.NoError(t, err)
		took[a.kind] += e.DurationMS
	}
	want.SavedUSD = nano(want.Hits * perHit)
	want.SavedMS = max(took["kept"]/want.Misses*want.Hits-took["hit"], 0)
	got, err := s.admin.CacheWorth(t.Context(), adminapi.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, want, got.CacheSums)
	require.Equal(t, []adminapi.NamedCacheSums{{Name: "kept", CacheSums: want}}, got.Models)
	require.Equal(t, []adminapi.NamedCacheSums{{Name: "answers", CacheSums: want}}, got.Caches)
	require.Equal(t, usage.Nano(saved).String(), got.PromptsSavedUSD)
	found := map[string]int64{}
	for _, p := range got.Prompts {
		found[p.Provider+"/"+p.Model] = p.CachedTokens
	}
	require.Equal(t, prompts, found)

	p := s.visitor(t).page(t, "/usage/cache")
	row := p.table(t, "Cache by model")["kept"]
	require.Equal(t, []string{number(want.Hits), number(want.Misses), "75 %", dollars(t, want.SavedUSD)},
		[]string{row["Hits"], row["Misses"], row["Hit share"], amount(t, row["Saved money"])})
	tiles := p.facts()
	require.Equal(t, number(want.Hits), tiles["Hits"])
	require.Equal(t, dollars(t, want.SavedUSD), tiles["Saved money"])
	require.Equal(t, dollars(t, got.PromptsSavedUSD), tiles["Saved by vendors' caches"])

	out := harness.Must(t, "", "cache", "--data", s.Dir, "-o", "json")
	var told adminapi.CacheWorth
	require.NoError(t, json.Unmarshal([]byte(out), &told), out)
	require.Equal(t, got.Models, told.Models)
	require.Contains(t, out, `"name":"answers","models":["kept"],"bytes":`)
	require.Contains(t, out, `"hits":`+strconv.FormatInt(want.Hits, 10))
}
