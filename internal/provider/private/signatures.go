package private

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// AI Studio and Vertex AI refuse each other's thought signatures ("Corrupted thought signature"), which do not say
// who made them. So clients of Google's dialect get each with a mark before it. A mark is six bytes in base64: it
// stays as it is if a client decodes the signature and encodes it again, in either alphabet.
const (
	markHead = "bWc6" // "mg:"
	markSize = 8
)

// Unsigned stands for the signature of a call that another model or product made, or that a client has kept without
// it (https://ai.google.dev/gemini-api/docs/thought-signatures).
const Unsigned = "skip_thought_signature_validator"

// Mark returns the mark of signatures that a vendor makes.
func Mark(vendor string) string {
	return base64.StdEncoding.EncodeToString([]byte("mg:" + (vendor + "   ")[:3]))
}

// MayBeMarked reports whether a request may have a signature with a mark.
func MayBeMarked(body []byte) bool { return bytes.Contains(body, []byte(markHead)) }

// Unmarked returns a signature without its mark, and whether a vendor takes it. One without a mark may be anyone's.
func Unmarked(signature, vendor string) (plain string, own bool) {
	if len(signature) < markSize || !strings.HasPrefix(signature, markHead) {
		return signature, true
	}
	return signature[markSize:], signature[:markSize] == Mark(vendor)
}
