package peers

import (
	"crypto/rand"
	"encoding/hex"
	"net/netip"
	"strings"
)

// randomBytes keeps the ids of two processes apart, also of two that have had one address.
const randomBytes = 6

// NewPrefix returns the prefix of the ids of a process's exchanges. It is random, so that a retry that reaches another
// process does not find a wrong exchange. It has the address of the process, if that is valid.
func NewPrefix(address netip.AddrPort) string {
	b := make([]byte, randomBytes, 3*randomBytes)
	_, _ = rand.Read(b) // never fails since Go 1.24
	if address.IsValid() {
		b, _ = address.AppendBinary(b) // never fails
	}
	return hex.EncodeToString(b) + "-"
}

// addressOf returns the address in an id.
func addressOf(id string) (address netip.AddrPort, ok bool) {
	prefix, _, _ := strings.Cut(id, "-")
	b, err := hex.DecodeString(prefix)
	if err != nil || len(b) <= randomBytes || address.UnmarshalBinary(b[randomBytes:]) != nil {
		return netip.AddrPort{}, false
	}
	return address, address.IsValid()
}
