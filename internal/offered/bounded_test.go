package offered_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/offered"
)

// TestManyModelsAreOneUnknown: what is beyond the bounds is unknown, also its price, and takes no memory.
func TestManyModelsAreOneUnknown(t *testing.T) {
	for open, one := range map[string]string{`"models":`: `"a"`, `"plugins":[[[[[[[[`: `0`,
		`"fallbacks":`: `{"model":"a"}`,
		`"plugins":`:   `{"model":"a"}`, `"tools":[{"type":"x","a":`: `[{"model":"a"}]`} {
		objects := strings.Count(open, "{")
		closing := strings.Repeat("]", strings.Count(open, "[")-objects) + strings.Repeat("}]", objects)
		body := `{` + open + `[` + strings.Repeat(one+",", 200_000) + one + `]` + closing + `}`
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		l := read(body)
		runtime.ReadMemStats(&after)
		require.Len(t, l.Models, 1001, open)
		require.Empty(t, l.Models[1000].Name, open)
		require.True(t, slices.ContainsFunc(l.Tools, func(t offered.Tool) bool { return t.Kind == offered.Unknown }), open)
		require.NotEmpty(t, l.Fees, open)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4*len(body)+1<<20), open)
	}
	function := `{"type":"function","function":{"name":"f"}},`
	require.NotEmpty(t, read(`{"tools":[`+strings.Repeat(function, 20_000)+`{"type":"web_search"}]}`).Fees,
		"the price of what was not read is unknown")
}
