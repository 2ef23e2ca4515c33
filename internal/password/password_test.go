package password_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/password"
)

func TestHashVerifiesItsPasswordAndNoOther(t *testing.T) {
	hash, err := password.Hash("correct horse battery")
	require.NoError(t, err)
	require.Regexp(t, `^\$argon2id\$v=19\$m=32768,t=3,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`, hash)
	require.True(t, password.Verify(hash, "correct horse battery"))
	for _, other := range []string{"", "correct horse batterY", "correct horse battery "} {
		require.False(t, password.Verify(hash, other), "%q", other)
	}
	again, err := password.Hash("correct horse battery")
	require.NoError(t, err)
	require.NotEqual(t, hash, again, "each has a salt of its own")
}

// The hash was made by the reference implementation's command, with parameters that are not ours.
func TestHashesOfOthersAreRead(t *testing.T) {
	const hash = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	require.True(t, password.Verify(hash, "password"))
	require.False(t, password.Verify(hash, "Password"))
}

func TestBrokenHashesVerifyNothing(t *testing.T) {
	hash, err := password.Hash("p")
	require.NoError(t, err)
	for name, broken := range map[string]string{
		"empty":            "",
		"another function": strings.Replace(hash, "argon2id", "argon2i", 1),
		"another version":  strings.Replace(hash, "v=19", "v=16", 1),
		"huge memory":      strings.Replace(hash, "m=32768", "m=4294967295", 1),
		"no pass":          strings.Replace(hash, "t=3", "t=0", 1),
		"many passes":      strings.Replace(hash, "t=3", "t=4000000000", 1),
		"no thread":        strings.Replace(hash, "p=1", "p=0", 1),
		"cut":              hash[:len(hash)-10],
		"without a sum":    hash[:strings.LastIndex(hash, "$")+1],
		"one part more":    hash + "$",
	} {
		require.False(t, password.Verify(broken, "p"), name)
	}
}

func TestLongPasswords(t *testing.T) {
	hash, err := password.Hash(strings.Repeat("a", password.MaxBytes))
	require.NoError(t, err)
	require.True(t, password.Verify(hash, strings.Repeat("a", password.MaxBytes)))
	require.False(t, password.Verify(hash, strings.Repeat("a", password.MaxBytes+1)))
	_, err = password.Hash(strings.Repeat("a", password.MaxBytes+1))
	require.ErrorIs(t, err, password.ErrTooLong)
}

func TestManyAtOnceAllGetTheirTurn(t *testing.T) {
	hash, err := password.Hash("p")
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if !password.Verify(hash, "p") {
				t.Error("not verified")
			}
		})
	}
	all.Wait()
}
