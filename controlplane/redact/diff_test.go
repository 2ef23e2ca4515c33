package redact

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"
	"github.com/stretchr/testify/require"
)

func numbered(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d", i+1)
	}
	return lines
}

// text is lines as a file has them.
func text(lines []string) string {
	var out strings.Builder
	for _, l := range lines {
		out.WriteString(l + "\n")
	}
	return out.String()
}

func TestUnified(t *testing.T) {
	long := numbered(20)
	changed := append([]string(nil), long...)
	changed[1], changed[17] = "two", "eighteen"
	for name, tc := range map[string]struct {
		a, b []string
		want string
	}{
		"equal":   {long, long, ""},
		"empty":   {nil, nil, ""},
		"created": {nil, []string{"a", "b"}, "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		"deleted": {[]string{"a"}, nil, "@@ -1 +0,0 @@\n-a\n"},
		"middle":  {[]string{"a", "b", "c"}, []string{"a", "x", "c"}, "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		"moved":   {[]string{"a", "b", "c"}, []string{"b", "c", "a"}, "@@ -1,3 +1,3 @@\n-a\n b\n c\n+a\n"},
		"two hunks": {long, changed, "@@ -1,5 +1,5 @@\n line 1\n-line 2\n+two\n line 3\n line 4\n line 5\n" +
			"@@ -15,6 +15,6 @@\n line 15\n line 16\n line 17\n-line 18\n+eighteen\n line 19\n line 20\n"},
	} {
		t.Run(name, func(t *testing.T) {
			want := tc.want
			if want != "" {
				want = "--- a\n+++ b\n" + want
			}
			require.Equal(t, want, udiff.Unified("a", "b", text(tc.a), text(tc.b)))
		})
	}
}

func TestUnifiedBoundsItsMemory(t *testing.T) {
	a, b := numbered(100_000), numbered(100_000)
	for i := range b {
		b[i] += "!"
	}
	out := udiff.Unified("a", "b", text(a), text(b))
	require.Equal(t, 200_000, strings.Count(out, "line"))
}
