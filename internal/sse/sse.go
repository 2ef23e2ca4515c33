// Package sse decodes server-sent events, as the HTML standard defines them
// (https://html.spec.whatwg.org/multipage/server-sent-events.html), from bytes that arrive in pieces.
//
// The caller feeds the decoder, because Envoy delivers bodies in pieces, while libraries read from an io.Reader. The
// decoder allocates nothing per event (BenchmarkDecoder), because an answer has hundreds of events.
//
// Pieces are independent of events. They are cut anywhere, even between CR and LF or inside a rune. The cuts never
// change the decoded events.
package sse

import (
	"bytes"
	"errors"
	"iter"
)

// DefaultLimit is the maximum size of an event in bytes if Decoder.Limit is 0.
const DefaultLimit = 32 << 20

// maxIdle is the size in bytes of the largest buffer that a decoder keeps while it waits for the next piece.
const maxIdle = 16 << 10

// ErrTooLarge is the error of Decoder.Next for an event above the limit. Nothing can be decoded after it.
var ErrTooLarge = errors.New("a server-sent event is larger than the limit")

const byteOrderMark = "\xef\xbb\xbf"

// An Event is one server-sent event.
type Event struct {
	// Name is the event's type, or empty if the stream does not have one.
	Name string
	// Data has the data lines, joined by line feeds. It belongs to the decoder and is valid until the next Feed.
	Data []byte
}

// Data returns the data lines of complete events, each with the bytes after the colon.
func Data(events []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(events) > 0 {
			line := events
			if i := bytes.IndexByte(line, '\n'); i >= 0 {
				line = line[:i]
			}
			if i := bytes.IndexByte(line, '\r'); i >= 0 {
				line = line[:i]
			}
			events = events[min(len(line)+1, len(events)):]
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && !yield(data) {
				return
			}
		}
	}
}

// A Decoder decodes the events of a stream: call Feed with a piece, call Next until it returns false, and call Close
// at the end of the stream. The zero value is ready for use. A Decoder is not safe for concurrent use.
type Decoder struct {
	// Limit is the maximum size of an event's lines in bytes; 0 means DefaultLimit. Set it before the first Feed.
	Limit int

	buf    []byte
	start  int // in buf, the beginning of the current event
	line   int // in buf, the beginning of the current line
	scan   int // in buf, the first byte that was not searched yet
	lf     int // in buf, the first LF at or after scan; len(buf) if there is none; out of date if less than scan
	from   int // buf[from:to] is the data of the current event
	to     int
	begun  bool // after a byte order mark
	skipLF bool // the last line ended with CR: an LF directly after it belongs to the line's end
	data   bool // the event has data, which may be empty
	named  bool // the event has a name
	name   string
	failed bool
}

// Feed adds the next piece of the stream. The decoder keeps no reference to it.
func (d *Decoder) Feed(piece []byte) {
	if d.failed {
		return
	}
	if d.lf == len(d.buf) {
		d.lf = -1
	}
	if d.start > 0 {
		d.moveTo(d.buf[:0])
	}
	d.buf = append(d.buf, piece...)
}

// Each feeds a piece, and calls take with each event that is complete. It stops at the first error, which is
// take's, or ErrTooLarge.
func (d *Decoder) Each(piece []byte, take func(Event) error) error {
	d.Feed(piece)
	for {
		e, ok, err := d.Next()
		if err != nil || !ok {
			return err
		}
		if err := take(e); err != nil {
			return err
		}
	}
}

// Next returns the next complete event. It returns false if it needs another piece.
func (d *Decoder) Next() (Event, bool, error) {
	if d.failed {
		return Event{}, false, ErrTooLarge
	}
	if !d.skipByteOrderMark() {
		return Event{}, false, nil
	}
	for {
		end := d.lineEnd()
		if max(end, d.scan)-d.start > d.limit() {
			*d = Decoder{failed: true}
			return Event{}, false, ErrTooLarge
		}
		if end < 0 {
			d.release()
			return Event{}, false, nil
		}
		blank := end == d.line
		d.endLine(end)
		d.skipLF = d.buf[end] == '\r'
		d.line, d.scan = end+1, end+1
		if blank {
			if e, ok := d.endEvent(); ok {
				return e, true, nil
			}
		}
		if !d.data {
			d.start = d.line // earlier bytes are not needed
		}
	}
}

// Pending returns the number of bytes that are neither in a returned event nor in comments before one. All bytes
// before them can be passed on.
func (d *Decoder) Pending() int { return len(d.buf) - d.start }

// Close ends the stream. It returns the last event if the blank line after it is missing. Next must have returned
// false before.
func (d *Decoder) Close() (Event, bool) {
	if d.failed {
		return Event{}, false
	}
	d.endLine(len(d.buf))
	d.line, d.scan = len(d.buf), len(d.buf)
	return d.endEvent()
}

func (d *Decoder) limit() int {
	if d.Limit > 0 {
		return d.Limit
	}
	return DefaultLimit
}

// skipByteOrderMark returns false while the first bytes may still become a byte order mark.
func (d *Decoder) skipByteOrderMark() bool {
	if d.begun {
		return true
	}
	if len(d.buf) < len(byteOrderMark) && string(d.buf) == byteOrderMark[:len(d.buf)] {
		return false
	}
	d.begun = true
	if bytes.HasPrefix(d.buf, []byte(byteOrderMark)) {
		n := len(byteOrderMark)
		d.start, d.line, d.scan = n, n, n
	}
	return true
}

// lineEnd returns the end of the current line, or -1 if it has not arrived yet. No byte is searched twice, even over
// several calls.
func (d *Decoder) lineEnd() int {
	if d.skipLF && d.scan < len(d.buf) {
		d.skipLF = false
		if d.buf[d.scan] == '\n' {
			d.scan++
			d.line++
			if !d.data {
				d.start++
			}
		}
	}
	if d.lf < d.scan {
		d.lf = len(d.buf)
		if i := bytes.IndexByte(d.buf[d.scan:], '\n'); i >= 0 {
			d.lf = d.scan + i
		}
	}
	if i := bytes.IndexByte(d.buf[d.scan:d.lf], '\r'); i >= 0 {
		return d.scan + i
	}
	if d.lf < len(d.buf) {
		return d.lf
	}
	d.scan = len(d.buf)
	return -1
}

// endLine processes the line buf[d.line:end].
func (d *Decoder) endLine(end int) {
	field, value, _ := bytes.Cut(d.buf[d.line:end], []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
		d.addData(value, end)
	case "error": // of no standard: llama.cpp's server has said so what went wrong
		d.named, d.name = true, "error"
		d.addData(value, end)
	case "event":
		d.named = true
		if d.name != string(value) { // a run of events with the same name allocates it once
			d.name = string(value)
		}
	}
}

// addData appends a data line to the event's data, inside buf, where the line's prefix has left room.
func (d *Decoder) addData(value []byte, end int) {
	if !d.data {
		d.data, d.from, d.to = true, end-len(value), end
		return
	}
	d.buf[d.to] = '\n' // in place of the previous line's end
	d.to += 1 + copy(d.buf[d.to+1:], value)
}

// endEvent returns the event that ends before d.line. It returns false if the event has no data.
func (d *Decoder) endEvent() (Event, bool) {
	var e Event
	if d.data {
		e.Data = d.buf[d.from:d.to:d.to]
		if d.named {
			e.Name = d.name
		}
	}
	ok := d.data
	d.data, d.named = false, false
	d.start = d.line
	return e, ok
}

// release frees a buffer that is larger than an idle stream may keep. Events that were returned keep theirs.
func (d *Decoder) release() {
	if cap(d.buf) > maxIdle && len(d.buf)-d.start <= maxIdle/2 {
		d.moveTo(nil)
	}
}

// moveTo copies the rest of buf to dst.
func (d *Decoder) moveTo(dst []byte) {
	n := d.start
	none := d.lf == len(d.buf)
	d.buf = append(dst, d.buf[n:]...)
	d.start, d.line, d.scan, d.from, d.to = 0, d.line-n, d.scan-n, d.from-n, d.to-n
	d.lf -= n
	if none {
		d.lf = len(d.buf)
	}
}
