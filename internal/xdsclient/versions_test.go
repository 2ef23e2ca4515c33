package xdsclient

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionsAreKeptAsTheyCame(t *testing.T) {
	v, want := newVersions(), map[string]string{}
	for name, version := range map[string]string{
		"hash": strings.Repeat("0a", 32), "revision": "7", "none": "", "upper case": strings.Repeat("0A", 32),
		"long":  strings.Repeat("0a", 33),
		"short": strings.Repeat("0a", 31), "odd": strings.Repeat("0a", 31) + "0", "text": strings.Repeat("xy", 32),
	} {
		v.set(name, version)
		want[name] = version
	}
	require.Equal(t, want, v.all())
	require.Len(t, v.hashes, 1)
	v.set("hash", "8")
	v.set("revision", strings.Repeat("0b", 32))
	v.remove("long")
	v.remove("nothing")
	delete(want, "long")
	want["hash"], want["revision"] = "8", strings.Repeat("0b", 32)
	require.Equal(t, want, v.all())
}
