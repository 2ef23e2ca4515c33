package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/limit"
)

// What limits count is one list. What cannot read it says the same.
func TestDomainsOfLimitsAreTheSameEverywhere(t *testing.T) {
	names := configv1.DomainNames()
	for _, d := range names {
		m, ok := limit.MeasureOf(d)
		require.True(t, ok, "%s has no measure", d)
		require.Equal(t, d, m.String())
	}
	_, ok := limit.MeasureOf(limit.Cost.String())
	require.False(t, ok, "no limit counts what budgets do")
	for file, text := range map[string]string{
		"../../api/admin/openapi.yaml": "enum: [" + strings.Join(names, ", ") + "]}",
		"../../api/config/v1/config.proto": "// What the limit counts: " +
			strings.Join(names[:len(names)-1], ", ") + ", or " + names[len(names)-1] + ".",
	} {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(content), text, file)
	}
	page, err := os.ReadFile("../../docs/limits.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "| domain | counts |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []string
	for row := range strings.Lines(table) {
		first := strings.Split(row, "|")[1]
		for name := range strings.SplitSeq(first, ",") {
			documented = append(documented, strings.Trim(name, " `"))
		}
	}
	require.Equal(t, names, documented)
}
