package httpapi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/httpapi"
)

func TestCSVText(t *testing.T) {
	for _, formula := range []string{"=1+1", "+1", "-1", "@a", "\tx", "\rx", "\nx", "＝1", "＋1", "－1", "＠a"} {
		require.Equal(t, "'"+formula, httpapi.CSVText(formula))
	}
	for _, text := range []string{"", "plain", `a,"b"`, "a=1"} {
		require.Equal(t, text, httpapi.CSVText(text))
	}
}
