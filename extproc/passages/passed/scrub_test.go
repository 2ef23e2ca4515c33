package passed

import (
	"encoding/base64"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/extproc/routing"
)

func TestScrubbedBodiesDoNotDependOnTheCuts(t *testing.T) {
	secrets := routing.SecretsOf("AKIAAAAAAAAAAAAAAAAA:aaaaaaaaaaaaaaaaaaaaaaab:short")
	whole := secrets[0].Reveal()
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var body strings.Builder
		for body.Len() < 300 {
			pieces := []string{whole, secrets[1].Reveal(), secrets[2].Reveal(), whole[:30], "AKIAA",
				"aaaaaaaaaaaaaaaaaaaaaaaaaa", url.QueryEscape(whole), base64.StdEncoding.EncodeToString([]byte(whole)), " {} "}
			body.WriteString(pieces[random.IntN(len(pieces))])
		}
		want := string(newScrubber(secrets).pass([]byte(body.String()), true))
		for _, s := range secrets {
			require.NotContains(t, want, s.Reveal())
		}
		byOne, cut := newScrubber(secrets), newScrubber(secrets)
		var ones, cuts []byte
		for i := range body.Len() {
			ones = append(ones, byOne.pass([]byte(body.String()[i:i+1]), false)...)
			require.Less(t, len(byOne.kept), byOne.longest)
		}
		for rest := body.String(); rest != ""; {
			n := 1 + random.IntN(len(rest))
			cuts, rest = append(cuts, cut.pass([]byte(rest[:n]), false)...), rest[n:]
		}
		require.Equal(t, want, string(append(ones, byOne.pass(nil, true)...)))
		require.Equal(t, want, string(append(cuts, cut.pass(nil, true)...)))
	}
	require.Equal(t, "nothing here", string(newScrubber(secrets).pass([]byte("nothing here"), true)))
}

// A search for many secrets is linear in the body.
func TestScrubbingIsLinear(t *testing.T) {
	secrets := routing.SecretsOf("AKIAAAAAAAAAAAAAAAAA:aaaaaaaaaaaaaaaaaaaaaaab")
	took := func(size int) time.Duration {
		body := []byte(strings.Repeat(secrets[1].Reveal(), size))
		start := time.Now()
		newScrubber(secrets).pass(body, true)
		return time.Since(start)
	}
	require.Less(t, took(50_000), 5*time.Second, "a quadratic search of a megabyte takes minutes")
}
