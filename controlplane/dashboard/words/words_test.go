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
	for _, column := range [][2][]string{
		{{"12.345", "0", "1234.5"}, {"$12.35", "$0.00", "$1,234.50"}},
		{{"12.345", "0", "0.5", "0.00001"}, {"$12.3450", "$0.0000", "$0.5000", "<$0.0001"}},
	} {
		usd := words.Column(column[0]...)
		for i, amount := range column[0] {
			require.Equal(t, column[1][i], usd(amount), "one precision for a column")
		}
	}
	exact := words.Exact("3", "0.075", "")
	require.Equal(t, []string{"$3.000", "$0.075", ""}, []string{exact("3"), exact("0.075"), exact("")})
	for part, want := range map[int]int{0: 0, 1: 1, 5: 1, 334: 33, 336: 34, 995: 99, 999: 99, 1000: 100, 2504: 250} {
		require.Equal(t, want, words.Percent(part, 1000), part)
	}
	require.Equal(t, 67, words.Percent("2", "3"))
	require.Equal(t, "1,234,567", words.Number(1234567))
	require.Equal(t, "-1,234", words.Number(-1234))
	for _, formula := range []string{"=1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠x"} {
		require.Equal(t, "'"+formula, httpapi.CSVText(formula))
	}
	require.Equal(t, "a=1", httpapi.CSVText("a=1"))
}
