// Package websocket reads the frames of a WebSocket server, as RFC 6455 defines them, from bytes that arrive in
// pieces, and writes a close frame.
//
// The caller feeds the reader, because Envoy delivers the bytes of an upgraded connection in pieces, cut anywhere.
// The reader keeps no payload: it returns the parts of each frame as they arrive, so that its memory does not depend
// on the length of a frame. Frames of a client are masked, and no server sends such a frame.
package websocket

import (
	"encoding/binary"
	"errors"
)

// An Opcode is the type of a frame (RFC 6455, section 11.8).
type Opcode byte

// Opcodes.
const (
	Continuation Opcode = 0
	Text         Opcode = 1
	Binary       Opcode = 2
	Close        Opcode = 8
	Ping         Opcode = 9
	Pong         Opcode = 10
)

// IsControl reports whether frames of this type may stand between the frames of a message.
func (o Opcode) IsControl() bool { return o >= Close }

// Status codes of close frames (RFC 6455, section 7.4.1).
const (
	StatusNormal          = 1000
	StatusGoingAway       = 1001
	StatusNone            = 1005 // the frame has no status; it is never sent
	StatusPolicyViolation = 1008
)

// maxControl is the longest payload of a control frame.
const maxControl = 125

// maxHeader is the longest header of a frame without a mask.
const maxHeader = 10

// ErrProtocol means that the bytes are not frames of a server without extensions. Nothing can be read after it.
var ErrProtocol = errors.New("the bytes are not frames of a WebSocket server")

// A Part is a part of a frame. The parts of a frame are in order.
type Part struct {
	// Opcode is the frame's. For a message, it is Text or Binary also in the frames that continue it.
	Opcode Opcode
	// Payload is a part of the piece that was fed, and may be empty.
	Payload []byte
	// Begins and Ends mark the first and the last part of a message, or of a control frame.
	Begins, Ends bool
}

// A Reader reads frames. The zero value is ready for use. A Reader is not safe for concurrent use.
type Reader struct {
	header [maxHeader]byte
	have   int    // bytes of the header that were read
	left   uint64 // bytes of the frame's payload that have not arrived
	within bool   // the header is complete and the payload is not

	opcode  Opcode // of the frame
	begins  bool   // the next part is the first one
	final   bool   // the frame ends its message
	message Opcode // of the open message, or Continuation if none is open
}

// AtBoundary reports whether all frames so far are complete, so that another frame may follow.
func (r *Reader) AtBoundary() bool { return r.have == 0 && !r.within }

// Next reads the next part from a piece, and returns the rest of the piece. If ok is false, the piece has ended, and
// rest is empty. The caller calls Next with the rest until then.
func (r *Reader) Next(piece []byte) (p Part, rest []byte, ok bool, err error) {
	if !r.within {
		if piece, ok, err = r.readHeader(piece); !ok || err != nil {
			return Part{}, nil, false, err
		}
	} else if len(piece) == 0 {
		return Part{}, nil, false, nil
	}
	n := min(r.left, uint64(len(piece)))
	p = Part{Opcode: r.opcode, Payload: piece[:n], Begins: r.begins}
	r.begins = false
	if r.left -= n; r.left == 0 {
		r.within, p.Ends = false, r.final
	}
	return p, piece[n:], true, nil
}

// readHeader reads the header of a frame. It returns the rest of the piece, and whether the header is complete.
func (r *Reader) readHeader(piece []byte) (rest []byte, ok bool, err error) {
	for r.have < 2 || r.have < 2+extended(r.header[1]) {
		if len(piece) == 0 {
			return nil, false, nil
		}
		r.header[r.have] = piece[0]
		r.have, piece = r.have+1, piece[1:]
		if r.have == 2 {
			if err := r.check(); err != nil {
				return nil, false, err
			}
		}
	}
	switch r.left = uint64(r.header[1]); r.left {
	case 126:
		r.left = uint64(binary.BigEndian.Uint16(r.header[2:]))
	case 127:
		r.left = binary.BigEndian.Uint64(r.header[2:])
		if r.left>>63 != 0 { // the most significant bit must be 0
			return nil, false, ErrProtocol
		}
	}
	r.have, r.within = 0, true
	return piece, true, nil
}

// extended returns the number of bytes of an extended length.
func extended(length byte) int {
	switch length {
	case 126:
		return 2
	case 127:
		return 8
	}
	return 0
}

// check reads the first two bytes of a header. No extension is negotiated, so the reserved bits are 0, and no server
// masks a frame.
func (r *Reader) check() error {
	first, length := r.header[0], r.header[1]
	r.opcode, r.final, r.begins = Opcode(first&0x0f), first&0x80 != 0, true
	if first&0x70 != 0 || length&0x80 != 0 {
		return ErrProtocol
	}
	switch r.opcode {
	case Close, Ping, Pong:
		if !r.final || length > maxControl {
			return ErrProtocol
		}
		return nil
	case Text, Binary:
		if r.message != Continuation {
			return ErrProtocol
		}
		r.message = r.opcode
	case Continuation:
		if r.message == Continuation {
			return ErrProtocol
		}
		r.opcode, r.begins = r.message, false
	default:
		return ErrProtocol
	}
	if r.final {
		r.message = Continuation
	}
	return nil
}

// AppendClose appends a close frame of a server with a status and a reason, which is cut to the length that a control
// frame may have. The reason must be ASCII.
func AppendClose(dst []byte, status uint16, reason string) []byte {
	reason = reason[:min(len(reason), maxControl-2)]
	dst = append(dst, 0x80|byte(Close), byte(2+len(reason)))
	dst = binary.BigEndian.AppendUint16(dst, status)
	return append(dst, reason...)
}

// CloseStatus returns the status in the payload of a close frame, or StatusNone.
func CloseStatus(payload []byte) uint16 {
	if len(payload) < 2 {
		return StatusNone
	}
	return binary.BigEndian.Uint16(payload)
}
