package usage

import (
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Version names a price by what it says: equal prices have equal versions, whichever catalog they are from. Of nil it
// is empty.
func Version(p *configv1.Price) string {
	if p == nil {
		return ""
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}
