package secret_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/secret"
)

func newRoot(t *testing.T) *secret.Root {
	t.Helper()
	root, err := secret.LoadRoot(filepath.Join(t.TempDir(), "root"))
	require.NoError(t, err)
	return root
}

func TestRootIsCreatedOnceAndStaysTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "root")
	pepper := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range pepper {
		wg.Go(func() {
			root, err := secret.LoadRoot(path)
			if err == nil {
				pepper[i] = root.KeyPepper()
			}
		})
	}
	wg.Wait()
	for _, p := range pepper {
		require.Len(t, p, 32)
		require.Equal(t, pepper[0], p)
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")
}

func TestRootFileIsRefused(t *testing.T) {
	good := strings.Repeat("ab", 32)
	for name, tc := range map[string]struct {
		content string
		mode    os.FileMode
		want    string
	}{
		"writable by the group":  {good, 0o660, "chmod 600"},
		"readable by the world":  {good, 0o604, "chmod 600"},
		"empty":                  {"\n", 0o600, "is empty"},
		"too short":              {"abcd", 0o600, "64 hexadecimal digits"},
		"not hexadecimal digits": {strings.Repeat("zz", 32), 0o600, "64 hexadecimal digits"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "root")
			require.NoError(t, os.WriteFile(path, []byte(tc.content), tc.mode))
			require.NoError(t, os.Chmod(path, tc.mode))
			_, err := secret.LoadRoot(path)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), good)
		})
	}
}

func TestRootDoesNotPrint(t *testing.T) {
	require.Equal(t, "[redacted] [redacted] [redacted]", fmt.Sprintf("%v %+v %#v", newRoot(t), newRoot(t), newRoot(t)))
}

func TestSealedValueOpensOnlyWhereItWasSealed(t *testing.T) {
	root := newRoot(t)
	sealed := root.Sealer().Seal("Provider", "openai", "credential", secret.New("sk-upstream"))
	require.NotContains(t, sealed, "sk-upstream")

	v, err := root.Sealer().Open("Provider", "openai", "credential", sealed)
	require.NoError(t, err)
	require.Equal(t, "sk-upstream", v.Reveal())

	for name, place := range map[string][3]string{
		"another kind":    {"Certificate", "openai", "credential"},
		"another name":    {"Provider", "mine", "credential"},
		"another field":   {"Provider", "openai", "private_key"},
		"shifted borders": {"Provideropenai", "", "credential"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := root.Sealer().Open(place[0], place[1], place[2], sealed)
			require.ErrorIs(t, err, secret.ErrUnsealable)
		})
	}
	_, err = newRoot(t).Sealer().Open("Provider", "openai", "credential", sealed)
	require.ErrorIs(t, err, secret.ErrUnsealable, "another root")
}

func TestSealedValueIsTamperProofAndRandom(t *testing.T) {
	s := newRoot(t).Sealer()
	sealed := s.Seal("Provider", "a", "credential", secret.New("x"))
	require.NotEqual(t, sealed, s.Seal("Provider", "a", "credential", secret.New("x")))
	raw, err := base64.StdEncoding.DecodeString(sealed)
	require.NoError(t, err)
	for i := range raw {
		changed := append([]byte(nil), raw...)
		changed[i] ^= 1
		_, err := s.Open("Provider", "a", "credential", base64.StdEncoding.EncodeToString(changed))
		require.ErrorIs(t, err, secret.ErrUnsealable, "byte %d", i)
	}
	for _, bad := range []string{"", "!", "AQ==", base64.StdEncoding.EncodeToString(raw[:len(raw)-1])} {
		_, err := s.Open("Provider", "a", "credential", bad)
		require.ErrorIs(t, err, secret.ErrUnsealable, bad)
	}
}
