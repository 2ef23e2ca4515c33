package openai_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestACodeMakesItsError(t *testing.T) {
	e := openai.CodeDecimalDented.On("weight", "It is %d.", 5)
	require.Equal(t, 400, e.Status)
	require.Equal(t, "invalid_request_error", e.Type)
	require.Equal(t, "weight", e.Param)
	text, err := os.ReadFile("../../docs/errors.md")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), "`decimal_dented`"))
}
