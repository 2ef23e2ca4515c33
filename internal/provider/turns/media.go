package turns

import (
	"encoding/base64"
	"net/url"
	"strings"
)

// DataURI returns the media type and the data, in base64, of a data URI (RFC 2397).
func DataURI(uri string) (mediaType, data string, ok bool) {
	const scheme = "data:"
	if len(uri) < len(scheme) || !strings.EqualFold(uri[:len(scheme)], scheme) {
		return "", "", false
	}
	head, data, ok := strings.Cut(uri[len(scheme):], ",")
	if !ok {
		return "", "", false
	}
	head = strings.ToLower(head)
	mediaType, _, _ = strings.Cut(head, ";")
	mediaType = strings.TrimSpace(mediaType)
	if strings.HasSuffix(head, ";base64") {
		data, ok = Base64(data)
		return mediaType, data, ok && data != ""
	}
	plain, err := url.PathUnescape(data)
	if err != nil {
		return "", "", false
	}
	return mediaType, base64.StdEncoding.EncodeToString([]byte(plain)), plain != ""
}

// Base64 returns data in standard base64. Clients may send it URL-escaped, with line ends, without padding or in the
// URL alphabet. It returns false for invalid data.
func Base64(data string) (string, bool) {
	if isBase64(data) {
		return data, true
	}
	if plain, err := url.PathUnescape(data); err == nil {
		data = plain
	}
	data = strings.NewReplacer("\r", "", "\n", "", "\t", "", " ", "", "-", "+", "_", "/", "=", "").Replace(data)
	data += strings.Repeat("=", (4-len(data)%4)%4)
	return data, isBase64(data)
}

func isBase64(data string) bool {
	end := strings.TrimSuffix(strings.TrimSuffix(data, "="), "=")
	for i := range len(end) {
		if !inBase64[end[i]] {
			return false
		}
	}
	return len(data)%4 == 0 && len(end)%4 != 1
}

// inBase64 has the characters of base64.
var inBase64 = func() (table [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		table[c] = true
	}
	return table
}()

// Address returns the URL of an image in a form for vendors: an address unchanged, and a data URI in its simplest
// form. It returns false for an invalid data URI.
func Address(uri string) (string, bool) {
	if len(uri) < len("data:") || !strings.EqualFold(uri[:len("data:")], "data:") {
		return uri, true
	}
	mediaType, data, ok := DataURI(uri)
	return "data:" + mediaType + ";base64," + data, ok
}
