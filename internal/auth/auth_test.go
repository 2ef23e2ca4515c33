package auth_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/secret"
)

const knownKey = "sk-mg-0123456789abcdefghjkmnpqrsam83vp"

func TestGeneratedKeysHaveTheirFormAndDiffer(t *testing.T) {
	form := regexp.MustCompile(`^sk-mg-[0-9a-hjkmnp-tv-z]{32}$`)
	seen := map[string]bool{}
	for range 1000 {
		key := auth.Generate().Reveal()
		require.Regexp(t, form, key)
		require.True(t, auth.CheckFormat(key))
		require.False(t, seen[key])
		seen[key] = true
	}
}

func TestKnownKeyStaysValid(t *testing.T) {
	// Keys outlive releases: this one was made by the first.
	require.True(t, auth.CheckFormat(knownKey))
}

func TestMistypedKeyIsRejected(t *testing.T) {
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
	for i := len("sk-mg-"); i < len(knownKey); i++ {
		for _, c := range alphabet {
			if typo := knownKey[:i] + string(c) + knownKey[i+1:]; typo != knownKey {
				require.False(t, auth.CheckFormat(typo), typo)
			}
		}
		if i > len("sk-mg-") && knownKey[i] != knownKey[i-1] {
			swapped := knownKey[:i-1] + string(knownKey[i]) + string(knownKey[i-1]) + knownKey[i+1:]
			require.False(t, auth.CheckFormat(swapped), swapped)
		}
	}
	for name, s := range map[string]string{
		"empty":         "",
		"prefix alone":  "sk-mg-",
		"another's":     "sk-proj-" + strings.Repeat("a", 30),
		"too short":     knownKey[:len(knownKey)-1],
		"too long":      knownKey + "0",
		"upper case":    strings.ToUpper(knownKey),
		"odd character": knownKey[:10] + "u" + knownKey[11:],
		"not ASCII":     knownKey[:10] + "é" + knownKey[12:],
	} {
		require.False(t, auth.CheckFormat(s), name)
	}
}

func TestHashIsHMACUnderThePepper(t *testing.T) {
	pepper := []byte("pepper")
	h := auth.NewHasher(pepper)
	for _, key := range []string{knownKey, "", strings.Repeat("long", 100)} {
		mac := hmac.New(sha256.New, []byte("pepper"))
		mac.Write([]byte(key))
		require.Equal(t, auth.Hash(mac.Sum(nil)), h.Hash(key))
	}
	pepper[0] = 'x'
	require.Equal(t, auth.NewHasher([]byte("pepper")).Hash("k"), h.Hash("k"), "the hasher keeps a copy of the pepper")
	require.NotEqual(t, auth.NewHasher(pepper).Hash("k"), h.Hash("k"))
}

func TestHasherIsSafeForConcurrentUse(t *testing.T) {
	h := auth.NewHasher([]byte("pepper"))
	want := h.Hash(knownKey)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if h.Hash(knownKey) != want {
					t.Error("another hash")
				}
			}
		})
	}
	wg.Wait()
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		key, ok := auth.FromHeader("Bearer " + knownKey)
		if !ok || !auth.CheckFormat(key) {
			t.Fatal("not recognised")
		}
	}))
	h := auth.NewHasher([]byte("pepper"))
	// Not zero: under the race detector sync.Pool forgets some of what it holds.
	require.Less(t, testing.AllocsPerRun(1000, func() { h.Hash(knownKey) }), 4.0)
}

func TestHint(t *testing.T) {
	require.Equal(t, knownKey[len(knownKey)-4:], auth.Hint(secret.New(knownKey)))
	require.Equal(t, "ab", auth.Hint(secret.New("ab")))
}

func TestFromHeader(t *testing.T) {
	for _, tc := range []struct{ header, key string }{
		{"Bearer sk-1", "sk-1"},
		{"bearer sk-1", "sk-1"},
		{"BEARER   sk-1", "sk-1"},
		{" \tBearer\tsk-1 \t", "sk-1"},
		{"Bearer a=b,c", "a=b,c"},
		{"", ""},
		{"Bearer", ""},
		{"Bearer ", ""},
		{"Bearersk-1", ""},
		{"Basic dXNlcjpwYXNz", ""},
		{"sk-1", ""},
		{"Bearer sk 1", ""},
		{"Bearer sk-1\x00", ""},
		{"Bearer sk-é", ""},
		{"Bearer \xff\xfe", ""},
	} {
		key, ok := auth.FromHeader(tc.header)
		require.Equal(t, tc.key, key, "%q", tc.header)
		require.Equal(t, tc.key != "", ok, "%q", tc.header)
	}
}

func FuzzFromHeader(f *testing.F) {
	for _, s := range []string{"", "Bearer x", "bearer\t" + knownKey, "Bearer \x80", "Bearer  a b", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		key, ok := auth.FromHeader(header)
		if ok != (key != "") {
			t.Fatalf("%q, %v", key, ok)
		}
		if ok && (!strings.Contains(header, key) || strings.ContainsAny(key, " \t\r\n\x00")) {
			t.Fatalf("%q gave %q", header, key)
		}
		auth.CheckFormat(header)
		auth.CheckFormat(key)
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	h := auth.NewHasher([]byte("pepper"))
	b.ReportAllocs()
	for b.Loop() {
		key, _ := auth.FromHeader("Bearer " + knownKey)
		auth.CheckFormat(key)
		h.Hash(key)
	}
}
