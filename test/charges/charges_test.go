package charges_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/charges"
)

func TestTheTableIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/limits.md")
	require.NoError(t, err)
	require.True(t, strings.Contains(string(text), charges.Table()), "docs/limits.md lacks this table:\n%s",
		charges.Table())
}

func TestOperationsHaveTheKindOfTheirAnswers(t *testing.T) {
	all := charges.Operations()
	for kind, names := range map[charges.Kind][]string{
		charges.Text:    {"chat/completions", "completions", "responses", "messages", "generateContent"},
		charges.Data:    {"embeddings", "moderations", "rerank", "embedContent", "batchEmbedContents", "responses/compact"},
		charges.Media:   {"images/generations", "audio/speech", "audio/transcriptions"},
		charges.Count:   {"messages/count_tokens", "countTokens"},
		charges.Session: {"realtime"},
		charges.Route:   {"route"},
		charges.Job:     {"files", "batches", "conversations"},
	} {
		for _, name := range names {
			require.Equal(t, kind, all[name], name)
		}
	}
}

func TestEveryKindHasRows(t *testing.T) {
	for name, kind := range charges.Operations() {
		n := 0
		for _, row := range charges.Rows {
			for _, k := range row.Kinds {
				if k == kind {
					n++
				}
			}
		}
		require.Positive(t, n, name)
	}
	require.False(t, strings.Contains(charges.Table(), "|  |  |"))
}
