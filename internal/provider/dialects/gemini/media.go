package gemini

import (
	"encoding/base64"
	"encoding/binary"
	"regexp"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

// media takes in the parts of an answer that are not text: speech, or else an image.
func (c *collector) media(index int, d *inlineData) {
	ch := &c.choices[index]
	ch.media = true
	if !strings.HasPrefix(d.MIMEType, "audio/") {
		c.image(index, "data:"+d.MIMEType+";base64,"+d.Data)
		return
	}
	if c.out != nil {
		delta := openai.AppendString([]byte(`{"id":`), "audio_"+c.id)
		delta = openai.AppendString(append(delta, `,"data":`...), d.Data)
		c.out.Put(chat.Member(index, "audio", append(delta, '}')))
		return
	}
	ch.audioType = d.MIMEType
	if data, err := base64.StdEncoding.DecodeString(d.Data); err == nil {
		ch.audio = append(ch.audio, data...)
	}
}

// image takes in an image by its address.
func (c *collector) image(index int, url string) {
	ch := &c.choices[index]
	ch.media = true
	image := openai.AppendString(append(appendElement(ch.images), `{"type":"image_url","image_url":{"url":`...), url)
	ch.images = append(image, "}}"...)
}

// speech returns OpenAI's audio object for the choice. There is no transcript, and the vendor keeps nothing of it.
func (ch *choice) speech(c *collector) []byte {
	data := ch.audio
	if c.answer.audioFormat != formatPCM && isPCM(ch.audioType) {
		data = append(waveHeader(len(data), sampleRate(ch.audioType)), data...)
	}
	dst := openai.AppendString([]byte(`{"id":`), "audio_"+c.id)
	dst = base64.StdEncoding.AppendEncode(append(dst, `,"data":"`...), data)
	dst = strconv.AppendInt(append(dst, `","expires_at":`...), c.created, 10)
	return append(dst, `,"transcript":""}`...)
}

// Formats of speech, by OpenAI's names, that can be had: the vendor's own, and the same in a container.
const (
	formatPCM  = "pcm16"
	formatWave = "wav"
)

func isPCM(mimeType string) bool {
	return strings.HasPrefix(strings.ToLower(mimeType), "audio/l16") || strings.HasPrefix(mimeType, "audio/pcm")
}

var rate = regexp.MustCompile(`rate=([0-9]{1,6})`)

// sampleRate returns the samples in a second of audio such as audio/L16;codec=pcm;rate=24000.
func sampleRate(mimeType string) uint32 {
	if m := rate.FindStringSubmatch(mimeType); m != nil {
		n, _ := strconv.ParseUint(m[1], 10, 32) // six digits
		return uint32(n)
	}
	return 24000
}

// waveHeader returns the header of a WAV file with so many bytes of one channel of 16 bit samples.
func waveHeader(size int, rate uint32) []byte {
	h := make([]byte, 0, 44+size)
	h = append(h, "RIFF"...)
	h = binary.LittleEndian.AppendUint32(h, uint32(36+size))
	h = append(h, "WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"...)
	h = binary.LittleEndian.AppendUint32(h, rate)
	h = binary.LittleEndian.AppendUint32(h, 2*rate)
	h = append(h, "\x02\x00\x10\x00data"...)
	return binary.LittleEndian.AppendUint32(h, uint32(size))
}
