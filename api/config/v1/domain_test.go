package configv1

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDomainsCoverAndCount(t *testing.T) {
	for _, c := range []struct {
		outer, inner string
		want         bool
	}{
		{"requests", "requests", true}, {"tokens", "input_tokens", true}, {"tokens", "output_tokens", true},
		{"tokens", "tokens", true},
		{"input_tokens", "tokens", false}, {"input_tokens", "output_tokens", false}, {"tokens", "requests", false},
		{"requests", "tokens", false},
		{"concurrency", "concurrency", true}, {"requests", "concurrency", false}, {"concurrency", "requests", false},
	} {
		require.Equal(t, c.want, DomainOf(c.outer).Covers(DomainOf(c.inner)), "%s %s", c.outer, c.inner)
	}
	var used []int64
	for _, d := range Domains() {
		used = append(used, d.Used(1, 10, 100))
	}
	require.Equal(t, []int64{1, 110, 10, 100, 0}, used)
	require.Zero(t, DomainOf("words").Used(1, 10, 100))
	require.Equal(t, "output tokens", DomainOf("output_tokens").Text())
}
