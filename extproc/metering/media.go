package metering

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
)

// A medium is what a long string in base64 is.
type medium uint8

const (
	notMedia    medium = iota // text as it is
	mediaText                 // text
	mediaPages                // a document with pages
	mediaImage                // an image
	mediaSignal               // sound or video
)

// media are the members whose strings may be data in base64. A string of another member is text, whatever it looks
// like.
var media = setOf("url", "image_url", "data", "file_data", "fileData", "bytes", "b64_json", "image", "audio", "video",
	"file")

// Tokens of media whose real number nobody knows but the vendor: a page of a document has some 2,000 and 32 KB of
// base64, and 50 ms of sound have one, and 3,200 bytes of PCM.
const perByte = 16

// tokens estimates the tokens of n bytes of base64.
func (m medium) tokens(n int) int64 {
	switch m {
	case mediaText:
		return int64(n) * 3 / 16
	case mediaPages:
		return max(mediaTokens, int64(n)/perByte)
	case mediaSignal:
		return max(perImage, int64(n)*2/audioToken)
	}
	return perImage
}

// mediaOf returns what a string is, of a member that may have media.
func mediaOf(s []byte) medium {
	if len(s) < dataRun {
		if bytes.HasPrefix(s, []byte("data:image/")) {
			return mediaImage
		}
		return notMedia
	}
	if bytes.HasPrefix(s, []byte("data:")) {
		_, data, ok := bytes.Cut(s[:dataRun/2], []byte(";base64,"))
		if !ok {
			return notMedia
		}
		s = s[dataRun/2-len(data):]
	}
	if s = s[:min(len(s), dataRun)]; bytes.IndexByte(s, '\\') >= 0 {
		s = unbroken.ReplaceAll(s, nil)
	}
	var seen [256]bool
	kinds := 0
	for _, c := range s {
		if !isBase64(c) {
			return notMedia
		}
		if !seen[c] {
			seen[c] = true
			kinds++
		}
	}
	head := make([]byte, base64.StdEncoding.DecodedLen(len(s)))
	n, _ := base64.StdEncoding.Decode(head, s[:len(s)/4*4]) // as far as it can be read
	kind := http.DetectContentType(head[:n])
	switch family, _, _ := strings.Cut(kind, "/"); {
	case family == "image":
		return mediaImage
	case family == "audio", family == "video", kind == "application/ogg":
		return mediaSignal
	case family == "text" && kinds >= fewestKinds/2:
		return mediaText
	case family == "text":
		return notMedia
	case kind != "application/octet-stream", kinds >= fewestKinds:
		return mediaPages
	}
	return notMedia
}

// unbroken removes from base64 the escapes of lines, and of slashes.
var unbroken = regexp.MustCompile(`(?:\\[rn])+|\\(?:/|$)`)

// fewestKinds is how many of the 64 characters there are, at least, in the first 2 KB of data in base64. Numbers,
// words and hexadecimal digits have fewer.
const fewestKinds = 60

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '-' ||
		c == '_' || c == '='
}
