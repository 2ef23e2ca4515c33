package metering

import (
	"encoding/binary"
	"math"
	"net/http"
	"strings"

	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/tokens"
)

// What is estimated of images and sound that go into operations of their own or come out of them. A token of sound
// that is heard is 100 ms. Compressed speech has some 4,000 bytes a second. Of speech that is made, a token of text
// has six. A usual image has 1,056 tokens, and the dearest ones 6,240, with some 48 bytes of base64 each at the least
// (https://platform.openai.com/docs/guides/image-generation).
const (
	heardPerSecond   = 10
	speechPerSecond  = 4000
	spokenPerToken   = 6
	usualImage       = 1056
	dearestImage     = 6240
	bytesPerImageTok = 48
)

// formTokens estimates the tokens of a form's fields and files.
func formTokens(parts func(func(name string, file bool, value []byte))) (sum int64) {
	text := 0
	parts(func(name string, file bool, value []byte) {
		switch {
		case file:
			sum += fileTokens(value)
		case name != "model":
			text += len(value)
		}
	})
	return sum + tokens.Estimate(text)
}

// fileTokens estimates the tokens of a file. One of an unknown kind is sound, because operations with forms take
// images, which can be recognized, and sound.
func fileTokens(data []byte) int64 {
	switch kind := http.DetectContentType(data); {
	case strings.HasPrefix(kind, "image/"):
		return perImage
	case strings.HasPrefix(kind, "text/"):
		return tokens.Estimate(len(data))
	}
	return heardPerSecond*int64(len(data))/bytesPerSecond(data) + 1
}

// bytesPerSecond returns how many bytes of sound last a second. The header of a WAV file says it.
func bytesPerSecond(data []byte) int64 {
	const header = 44
	if len(data) < header || string(data[:4]) != "RIFF" || string(data[8:16]) != "WAVEfmt " {
		return speechPerSecond
	}
	// a rate that no sound has would make it free
	return min(max(int64(binary.LittleEndian.Uint32(data[28:])), 1), 48_000*2*2)
}

// guessed returns the tokens of a usual answer of images or sound, or 0 for other operations.
func (d *Demand) guessed(op *inbound.Operation) int64 {
	switch {
	case op.ImageAnswer:
		return d.Answers * usualImage
	case op.Name == "audio/speech":
		return min(d.Input, math.MaxInt32) * spokenPerToken
	}
	return 0
}

// Unreported estimates the tokens of an answer of an operation with images or sound, of which so many bytes have come,
// or were not shown.
func (d *Demand) Unreported(op *inbound.Operation, received int64, stream bool) (tokensOf, sound int64) {
	switch {
	case op.Name == "audio/speech":
		return d.Guess, d.Guess
	case op.ImageAnswer:
		return min(received/bytesPerImageTok, d.Answers*dearestImage), 0
	case stream:
		return tokens.Estimate(int(received / envelope)), 0
	}
	return tokens.Estimate(int(received)), 0
}

// envelope is how much longer an event of a stream is than its text, about.
const envelope = 10
