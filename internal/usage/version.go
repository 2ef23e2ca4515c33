package usage

import (
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Version returns an id of a price's content: equal prices have equal versions in all catalogs. It returns "" for nil.
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
