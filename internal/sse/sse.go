// Package sse decodes server-sent events, as the HTML standard defines them
// (https://html.spec.whatwg.org/multipage/server-sent-events.html), from bytes that arrive in pieces.
//
// The decoder is fed, because Envoy hands bodies over in pieces, where libraries read from an io.Reader; and it
// allocates nothing for an event (BenchmarkDecoder), of which an answer has hundreds.
//
// A piece has nothing to do with an event. Pieces are cut anywhere, also between CR and LF
// and within a rune, and where the cuts fall never changes the events that come out.
package sse

import (
	"bytes"
	"errors"
	"iter"
)

// DefaultLimit is the size in bytes beyond which an event is refused where Decoder.Limit is 0.
const DefaultLimit = 32 << 20

// keep is the size in bytes of the largest buffer that a decoder holds on to while it waits for the next piece.
const keep = 16 << 10

// ErrTooLarge is returned by Decoder.Next for an event that is larger than the limit. Nothing can be decoded after it.
var ErrTooLarge = errors.New("a server-sent event is larger than the limit")

const byteOrderMark = "\xef\xbb\xbf"

// An Event is one server-sent event.
type Event struct {
	// Name is the event's type, or empty where the stream does not give one.
	Name string
	// Data holds the data lines, joined by line feeds. It belongs to the decoder and is valid until the next Feed.
	Data []byte
}

// Data returns what the data lines of whole events hold, a line at a time, as it stands behind the colon.
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

// A Decoder turns pieces of a stream into events: Feed a piece, call Next until it has no more, and at the end of the
// stream Close. Its zero value is ready. It is not safe for concurrent use.
type Decoder struct {
	// Limit is the largest size in bytes of an event's lines; 0 means DefaultLimit. It is set before the first Feed.
	Limit int

	buf    []byte
	start  int // in buf, where the event that is being read begins
	line   int // in buf, where the line that is being read begins
	scan   int // in buf, the first byte that was not looked at yet
	lf     int // in buf, the first LF at or after scan; len(buf) where there is none; stale where less than scan
	from   int // buf[from:to] is the data of the event so far
	to     int
	begun  bool // past a byte order mark
	skipLF bool // the last line ended with CR: an LF right after it belongs to that end
	data   bool // the event has data, though it may be empty
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

// Next returns the next event that is complete. It reports false where it needs another piece.
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
			d.start = d.line // what came before need not be kept
		}
	}
}

// Pending returns how many of the bytes that were fed belong to no event that was returned, nor to comments before
// one. What came before them can be passed on.
func (d *Decoder) Pending() int { return len(d.buf) - d.start }

// Close ends the stream. It returns the last event where the stream ended before the blank line that completes one.
// Next must have returned false before.
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

// skipByteOrderMark reports false while the first bytes may still become a byte order mark.
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

// lineEnd returns where the line that is being read ends, or -1 where its end has not come yet. No byte is searched
// twice, however often it is called.
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

// endLine takes in the line buf[d.line:end].
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

// addData appends a data line to the event's data: within buf, where the space of the line's own prefix is free.
func (d *Decoder) addData(value []byte, end int) {
	if !d.data {
		d.data, d.from, d.to = true, end-len(value), end
		return
	}
	d.buf[d.to] = '\n' // where the end of a line was
	d.to += 1 + copy(d.buf[d.to+1:], value)
}

// endEvent returns the event that ends before d.line. One without data is none.
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

// release gives back a buffer that is larger than a stream at rest may hold. Events returned before keep theirs.
func (d *Decoder) release() {
	if cap(d.buf) > keep && len(d.buf)-d.start <= keep/2 {
		d.moveTo(nil)
	}
}

// moveTo makes what is left of buf begin at dst.
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
