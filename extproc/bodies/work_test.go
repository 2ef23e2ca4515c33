package bodies

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/scan"
)

// Text redacts text, and returns how many pieces it has replaced.
func (r *Rules) Text(s string) (string, int) {
	text, n, err := r.text(context.Background(), scan.NewWork(maxWork), s, false)
	if err != nil {
		panic(err)
	}
	return text, n
}

func TestTheWorkOfRedactionsIsBounded(t *testing.T) {
	r := rules(t, &configv1.Bodies{Patterns: []*configv1.Redaction{{Name: "square", Pattern: `a(?:.*b)?`}}})
	document := []byte(`"` + strings.Repeat("a", 300_000) + `"`)
	_, _, err := r.JSON(t.Context(), document)
	require.ErrorIs(t, err, scan.ErrSpent)
	p := part{text: document, bytes: int64(len(document)), media: mediaJSON}
	require.Equal(t, omittedWork, p.kept(t.Context(), r, 100).GetOmitted())
	ctx, leave := context.WithCancel(t.Context())
	leave()
	require.Equal(t, omittedWork, p.kept(ctx, r, 100).GetOmitted())
}
