package process_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// What providers are authenticated with is in variables of the gateway.
func TestEnvoyHasAnEmptyEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-of-the-gateway")
	o, _ := options(t, http.NotFoundHandler())
	p, _ := start(t, o)
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.Pid()))
	require.NoError(t, err)
	require.Empty(t, string(environment))
}
