package forms

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFit(t *testing.T) {
	strange := []string{"", "a", "a.b", "functions.get_weather:0", "-x", "1x", "é", strings.Repeat("x", 65),
		strings.Repeat("y", 300), "call_1~mg1.x", "a b", "日本", "\x00"}
	for vendor, v := range vendors {
		for _, f := range []Form{v.Call, v.Tool, v.User, v.Item} {
			seen := map[string]string{}
			for _, s := range strange {
				fit := f.Fit(s)
				require.True(t, f.Takes(fit), "%s: %q became %q", vendor, s, fit)
				require.Equal(t, fit, f.Fit(s))
				require.Equal(t, fit, f.Fit(fit), "what fits stays")
				require.NotContains(t, seen, fit, "%s: %q and %q", vendor, s, seen[fit])
				seen[fit] = s
				if f == v.Tool && fit != s {
					require.Contains(t, SentTools(s), fit)
				}
			}
		}
	}
	require.Equal(t, "get_weather", Of("moonshot").Tool.Fit("get_weather"))
	require.Equal(t, "_1x_", Of("moonshot").Tool.Fit("1x")[:4])
	require.Equal(t, "functions.f:0", Of("moonshot").Call.Fit("functions.f:0"), "Kimi's own")
}
