package xdsclient

import (
	"crypto/sha256"
	"encoding/hex"
)

// versions are the versions of the process's resources, by name. The control plane's are hashes in hexadecimal, and
// kept at half their size: there may be very many.
type versions struct {
	hashes map[string][sha256.Size]byte
	others map[string]string
}

func newVersions() versions {
	return versions{hashes: map[string][sha256.Size]byte{}, others: map[string]string{}}
}

func (v versions) set(name, version string) {
	v.remove(name)
	var sum [sha256.Size]byte
	if n, err := hex.Decode(sum[:], []byte(version[:min(len(version), 2*len(sum))])); err != nil || n != len(sum) ||
		hex.EncodeToString(sum[:]) != version {
		v.others[name] = version
		return
	}
	v.hashes[name] = sum
}

func (v versions) remove(name string) {
	delete(v.hashes, name)
	delete(v.others, name)
}

// all returns the versions as they came.
func (v versions) all() map[string]string {
	all := make(map[string]string, len(v.hashes)+len(v.others))
	for name, sum := range v.hashes {
		all[name] = hex.EncodeToString(sum[:])
	}
	for name, version := range v.others {
		all[name] = version
	}
	return all
}
