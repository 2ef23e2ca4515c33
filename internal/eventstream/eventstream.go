// Package eventstream decodes the frames of AWS event streams (application/vnd.amazon.eventstream,
// https://smithy.io/2.0/aws/amazon-eventstream.html) from bytes that arrive in pieces.
//
// Pieces are independent of frames. They are cut anywhere, even inside the twelve bytes with a frame's length. The
// cuts never change the decoded frames.
package eventstream

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// The sizes of the parts around the headers and the payload of a frame: the two lengths and their checksum, and
// the checksum of everything at the end.
const (
	preludeSize  = 12
	trailerSize  = 4
	maxHeaders   = 128 << 10 // the format's own limit
	defaultLimit = 16 << 20
)

// keep is the size in bytes of the largest buffer that a decoder holds on to while it waits for the next piece.
const keep = 16 << 10

// Errors of Decoder.Next. Nothing can be decoded after one.
var (
	ErrPrelude  = errors.New("the checksum of an event-stream frame's lengths is wrong")
	ErrChecksum = errors.New("the checksum of an event-stream frame is wrong")
	ErrLength   = errors.New("the lengths of an event-stream frame cannot be, or are beyond the limit")
	ErrHeaders  = errors.New("the headers of an event-stream frame cannot be read")
)

// A Frame is one frame. It belongs to the decoder and is valid until the next Feed.
type Frame struct {
	Payload []byte
	headers []byte // well-formed
}

// Header returns the value of a header that is a string, or nil if there is none of that name.
func (f Frame) Header(name string) []byte {
	for rest := f.headers; len(rest) > 0; {
		h, n := readHeader(rest)
		if h.kind == kindString && string(h.name) == name {
			return h.value
		}
		rest = rest[n:]
	}
	return nil
}

// A Decoder turns pieces of a stream into frames: Feed a piece, call Next until it has no more. Its zero value is
// ready. It is not safe for concurrent use.
type Decoder struct {
	// Limit is the largest size in bytes of a frame; 0 means 16 MiB. It is set before the first Feed.
	Limit int

	buf   []byte
	start int // in buf, where the next frame begins
	err   error
}

// Feed adds the next piece of the stream. The decoder keeps no reference to it.
func (d *Decoder) Feed(piece []byte) {
	if d.err != nil {
		return
	}
	if d.start > 0 {
		rest := d.buf[d.start:]
		if cap(d.buf) > keep && len(rest) < keep/2 {
			d.buf = nil
		}
		d.buf, d.start = append(d.buf[:0], rest...), 0
	}
	d.buf = append(d.buf, piece...)
}

// Next returns the next frame that is complete. It reports false if it needs another piece.
func (d *Decoder) Next() (Frame, bool, error) {
	if d.err != nil {
		return Frame{}, false, d.err
	}
	frame, n, err := read(d.buf[d.start:], d.limit())
	if err != nil {
		*d = Decoder{Limit: d.Limit, err: err}
		return Frame{}, false, err
	}
	d.start += n
	return frame, n > 0, nil
}

// Rest reports whether the stream so far ends within a frame.
func (d *Decoder) Rest() bool { return d.err == nil && d.start < len(d.buf) }

func (d *Decoder) limit() uint32 {
	if d.Limit > 0 {
		return uint32(min(d.Limit, 1<<31-1))
	}
	return defaultLimit
}

// read reads the frame at the beginning of b and returns its size, which is 0 if the frame is not complete.
func read(b []byte, limit uint32) (Frame, int, error) {
	if len(b) < preludeSize {
		return Frame{}, 0, nil
	}
	if crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]) {
		return Frame{}, 0, ErrPrelude
	}
	size, headers := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	if size > limit || headers > maxHeaders || size < preludeSize+trailerSize+headers {
		return Frame{}, 0, ErrLength
	}
	if uint64(len(b)) < uint64(size) {
		return Frame{}, 0, nil
	}
	end := size - trailerSize
	if crc32.ChecksumIEEE(b[:end]) != binary.BigEndian.Uint32(b[end:]) {
		return Frame{}, 0, ErrChecksum
	}
	f := Frame{headers: b[preludeSize : preludeSize+headers], Payload: b[preludeSize+headers : end : end]}
	for rest := f.headers; len(rest) > 0; {
		_, n := readHeader(rest)
		if n == 0 {
			return Frame{}, 0, ErrHeaders
		}
		rest = rest[n:]
	}
	return f, int(size), nil
}

// Types of header values.
const (
	kindBytes  = 6
	kindString = 7
)

// valueSizes are the sizes of the values of each type that has a fixed size.
var valueSizes = [...]int{0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}

type header struct {
	name, value []byte
	kind        byte
}

// readHeader reads the header at the beginning of b and returns its size, which is 0 if it cannot be read.
func readHeader(b []byte) (header, int) {
	nameEnd := 1 + int(b[0])
	if b[0] == 0 || len(b) <= nameEnd {
		return header{}, 0
	}
	h := header{name: b[1:nameEnd], kind: b[nameEnd]}
	at := nameEnd + 1
	var size int
	switch {
	case h.kind == kindBytes || h.kind == kindString:
		if len(b) < at+2 {
			return header{}, 0
		}
		size = int(binary.BigEndian.Uint16(b[at:]))
		at += 2
	case int(h.kind) < len(valueSizes):
		size = valueSizes[h.kind]
	default:
		return header{}, 0
	}
	if len(b) < at+size {
		return header{}, 0
	}
	h.value = b[at : at+size]
	return h, at + size
}
