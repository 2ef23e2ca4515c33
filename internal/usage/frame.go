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

// A segment is a file with a header and frames. The header has segmentHeader bytes: the magic and a random salt. A
// frame has the length of its payload and a checksum, four bytes each in little endian, a byte for its kind, and the
// payload, a record. The checksum includes the salt, so that no text of a client in a record looks like a frame.
const (
	segmentMagic  = "mgspool1"
	segmentHeader = len(segmentMagic) + 4
	frameHeader   = 9
	// maxPayload bounds a record. Only abnormally long strings make a record larger.
	maxPayload = 32 << 10
	maxFrame   = frameHeader + maxPayload
	// maxString is the length to which the strings of a too large record are cut.
	maxString = 256
)

// Kinds of frames.
const (
	kindBegin = 'b'
	kindEnd   = 'e'
)

// A frame is a frame that was read.
type frame struct {
	kind    byte
	payload []byte
}

// id returns the id of the frame's record.
func (f frame) id() string { return f.text(fieldID) }

// exchange returns the id of the record that the frame's record ends, if it is another id.
func (f frame) exchange() string { return f.text(fieldExchange) }

// Fields of a record.
const (
	fieldID       = 1
	fieldExchange = 37
)

// text returns a field of the frame's record, or "".
func (f frame) text(field protowire.Number) string {
	for rest := f.payload; len(rest) > 0; {
		number, wire, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return ""
		}
		rest = rest[n:]
		if number == field && wire == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(rest)
			return string(value)
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

// seal sets the checksums of the frames in data. All frames must be complete.
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
			m.Set(f, protoreflect.ValueOfString(valid(v.String())))
		}
		return true
	})
	for _, a := range r.GetAttemptList() {
		a.Provider, a.UpstreamModel, a.Error = valid(a.GetProvider()), valid(a.GetUpstreamModel()), valid(a.GetError())
	}
	if d := r.GetDetails(); d != nil {
		d.Dropped, d.Adjusted, d.UpstreamId = valid(d.GetDropped()), valid(d.GetAdjusted()), valid(d.GetUpstreamId())
		for _, list := range [][]string{d.GetRules(), d.GetPlan()} {
			for i := range list {
				list[i] = valid(list[i])
			}
		}
	}
	return r
}

func valid(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxString)], "") }

// readSalt returns the salt in the header of a segment.
func readSalt(head []byte) (uint32, bool) {
	if len(head) < segmentHeader || !bytes.HasPrefix(head, []byte(segmentMagic)) {
		return 0, false
	}
	return binary.LittleEndian.Uint32(head[len(segmentMagic):]), true
}

// readFrame returns the first frame in data, and its length. If there is no frame, f.payload is nil and n is the
// number of bytes to skip. If n is 0, more data is needed; with all set, that never happens.
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

// frameLength returns the length of the first frame in data, or 0 if there is no frame, and whether data is too short
// to tell.
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
