package gemini

import (
	"bytes"

	"github.com/modelgate/modelgate/internal/sse"
)

// A framer cuts a stream into the JSON that it carries. That is the data of server-sent events, but an error in
// mid-stream stands there as it is, without "data:", and where events were not asked for the whole stream is one JSON
// array.
type framer struct {
	sse     sse.Decoder
	midLine bool // the line that is being read has begun
	bare    bool // the rest of the stream is JSON without frames
	flushed bool // what was left of the events before it was taken
	values  values
}

func (f *framer) feed(piece []byte) {
	if f.bare {
		f.values.feed(piece)
		return
	}
	for from := 0; from < len(piece); {
		line, _, ended := bytes.Cut(piece[from:], []byte("\n"))
		if text := bytes.TrimLeft(line, " \t\r"); !f.midLine && len(text) > 0 {
			if text[0] == '{' || text[0] == '[' { // no field of an event begins so
				f.bare = true
				f.sse.Feed(piece[:from])
				f.values.feed(piece[from:])
				return
			}
			f.midLine = true
		}
		if from += len(line); ended {
			f.midLine = false
			from++
		}
	}
	f.sse.Feed(piece)
}

// next returns the next JSON value that is complete, which is valid until the next feed.
func (f *framer) next() ([]byte, bool, error) {
	if !f.flushed {
		e, ok, err := f.sse.Next()
		if err != nil || ok {
			return e.Data, ok, err
		}
		if !f.bare {
			return nil, false, nil
		}
		f.flushed = true
		if e, ok := f.sse.Close(); ok {
			return e.Data, true, nil
		}
	}
	return f.values.next()
}

// close returns the last event, where the stream ended before the blank line that completes it.
func (f *framer) close() ([]byte, bool) {
	if f.bare {
		return nil, false
	}
	e, ok := f.sse.Close()
	return e.Data, ok
}

// open reports whether the stream ended within a value.
func (f *framer) open() bool { return f.values.open() }

// values cuts text into the JSON objects in it that are in no other object, whether they stand in an array or alone.
type values struct {
	buf     []byte
	scan    int // in buf, the first byte that was not looked at yet
	start   int // in buf, where the object that is being read begins
	depth   int // of objects and arrays within it, itself included; 0 between objects
	quoted  bool
	escaped bool
}

func (v *values) feed(piece []byte) {
	from := v.scan
	if v.depth > 0 {
		from = v.start
	}
	if from > 0 {
		v.buf = append(v.buf[:0], v.buf[from:]...)
		v.scan -= from
		v.start -= from
	}
	v.buf = append(v.buf, piece...)
}

// next returns the next object that is complete.
func (v *values) next() ([]byte, bool, error) {
	for ; v.scan < len(v.buf); v.scan++ {
		b := v.buf[v.scan]
		switch {
		case v.depth == 0:
			if b == '{' {
				v.start, v.depth = v.scan, 1
			}
		case v.quoted:
			switch {
			case v.escaped:
				v.escaped = false
			case b == '\\':
				v.escaped = true
			case b == '"':
				v.quoted = false
			}
		case b == '"':
			v.quoted = true
		case b == '{' || b == '[':
			v.depth++
		case b == '}' || b == ']':
			if v.depth--; v.depth == 0 {
				v.scan++
				return v.buf[v.start:v.scan], true, nil
			}
		}
	}
	if v.depth > 0 && len(v.buf)-v.start > sse.DefaultLimit {
		return nil, false, sse.ErrTooLarge
	}
	return nil, false, nil
}

// open reports whether an object was begun and not ended.
func (v *values) open() bool { return v.depth > 0 }
