package words_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/controlplane/dashboard/words"
	"github.com/modelgate/modelgate/internal/httpapi"
)

func TestFigures(t *testing.T) {
	for amount, want := range map[string]string{"": "$0.00", "0": "$0.00", "12.345": "$12.35", "0.0021": "$0.0021",
		"0.00000001": "<$0.0001", "1234567.8": "$1,234,567.80", "x": "$0.00"} {
		require.Equal(t, want, words.Dollars(amount), amount)
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1k", 1234: "1.2k", 999_449: "999.4k", 999_949: "1M",
		1_000_000: "1M", 12_345_678_901: "12.3G"} {
		require.Equal(t, want, words.Short(n))
	}
	require.Equal(t, "1,234,567", words.Number(1234567))
	require.Equal(t, "-1,234", words.Number(-1234))
	for _, formula := range []string{"=1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠x"} {
		require.Equal(t, "'"+formula, httpapi.CSVText(formula))
	}
	require.Equal(t, "a=1", httpapi.CSVText("a=1"))
}
