package usage

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

// A segment is a file: a header of segmentHeader bytes, which are the magic and a random salt, and frames. A frame is
// the length of its payload and a checksum, four bytes each in little endian; a byte for its kind; and the payload, a
// record. The salt goes into the checksum, so that nothing that a client wrote into a record looks like a frame.
const (
	segmentMagic  = "mgspool1"
	segmentHeader = len(segmentMagic) + 4
	frameHeader   = 9
	// maxPayload bounds a record. One that is larger has strings that no vendor's names are as long as.
	maxPayload = 32 << 10
	maxFrame   = frameHeader + maxPayload
	// maxString is what the strings of a record that is too large are cut to.
	maxString = 256
)

// Kinds of frames.
const (
	kindBegin = 'b'
	kindEnd   = 'e'
)

// A frame is one that was read.
type frame struct {
	kind    byte
	payload []byte
}

// id returns that of the frame's record.
func (f frame) id() string {
	for rest := f.payload; len(rest) > 0; {
		number, wire, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return ""
		}
		rest = rest[n:]
		if number == 1 && wire == protowire.BytesType {
			id, _ := protowire.ConsumeBytes(rest)
			return string(id)
		}
		if n = protowire.ConsumeFieldValue(number, wire, rest); n < 0 {
			return ""
		}
		rest = rest[n:]
	}
	return ""
}

func checksum(salt uint32, body []byte) uint32 {
	return crc32.Update(salt, crc32.MakeTable(crc32.Castagnoli), body)
}

// appendFrame appends a frame without its checksum, which depends on the segment.
func appendFrame(dst []byte, kind byte, r *ledgerv1.Record) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0, kind)
	e := encoder{to: dst}
	if e.record(r); e.invalid || len(e.to)-start > maxFrame {
		e = encoder{to: dst}
		e.record(clipped(r))
	}
	binary.LittleEndian.PutUint32(e.to[start:], uint32(len(e.to)-start-frameHeader))
	return e.to
}

// seal sets the checksums of the frames in data, which must be whole.
func seal(salt uint32, data []byte) {
	for len(data) > 0 {
		n := frameHeader + int(binary.LittleEndian.Uint32(data))
		binary.LittleEndian.PutUint32(data[4:], checksum(salt, data[8:n]))
		data = data[n:]
	}
}

// clipped returns a copy of a record with short and valid strings.
func clipped(r *ledgerv1.Record) *ledgerv1.Record {
	r = proto.CloneOf(r)
	m := r.ProtoReflect()
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Kind() == protoreflect.StringKind {
			s := v.String()
			m.Set(f, protoreflect.ValueOfString(strings.ToValidUTF8(s[:min(len(s), maxString)], "")))
		}
		return true
	})
	return r
}

// readSalt returns the salt of a segment that begins with head.
func readSalt(head []byte) (uint32, bool) {
	if len(head) < segmentHeader || !bytes.HasPrefix(head, []byte(segmentMagic)) {
		return 0, false
	}
	return binary.LittleEndian.Uint32(head[len(segmentMagic):]), true
}

// readFrame returns the frame that data begins with, and how many bytes it takes. Where none does, f.payload is nil
// and n is how many bytes are to be skipped to where one may be; n is 0 where more must be read, which is never so
// when data is all there is.
func readFrame(salt uint32, data []byte, all bool) (f frame, n int) {
	for at := range data {
		rest := data[at:]
		n, short := frameLength(rest)
		if short {
			if all {
				continue
			}
			return frame{}, at
		}
		if n > 0 && checksum(salt, rest[8:n]) == binary.LittleEndian.Uint32(rest[4:]) {
			if at > 0 {
				return frame{}, at
			}
			return frame{kind: rest[8], payload: rest[frameHeader:n:n]}, n
		}
	}
	return frame{}, len(data)
}

// frameLength returns the length of the frame that data may begin with, 0 where it cannot begin with one, and whether
// data is too short to tell.
func frameLength(data []byte) (n int, short bool) {
	if len(data) < frameHeader {
		return 0, true
	}
	length := binary.LittleEndian.Uint32(data)
	if length > maxPayload || data[8] != kindBegin && data[8] != kindEnd {
		return 0, false
	}
	n = frameHeader + int(length)
	return n, n > len(data)
}
