// Package items stores lists of JSON items in pieces, so that a page costs what it shows, an append what it adds, and
// one item what is in its piece. A list is a blob with its index. The index has the newest items itself, and names
// pieces for all others: immutable segments in blobs of their own, or parts of the same blob.
//
// A change writes a new index beside the old one, and its new segments. It takes effect when the record names the
// index. Change says what is removed then. Never write to the name of a segment again: a reader may be at it.
package items

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidwall/gjson"
)

const (
	// maxTail is how many bytes of items an index has itself: an append writes these again.
	maxTail = 32 << 10
	// maxPiece is how many bytes of items a piece has, unless it is a single larger one.
	maxPiece = 128 << 10
	// markBytes is how much of the hash of an item's id an index has.
	markBytes = 2
)

// ErrMissing means that a stored document is gone or damaged although something names it.
var ErrMissing = errors.New("a stored document is missing or damaged")

// Root is the folder of all documents.
const Root = "responses/"

const day = 24 * 60 * 60

// Folder is where the documents of an object are that expires at a time, in Unix seconds. It begins with the day, so
// that a document which nothing names any more is found and removed by its name alone.
func Folder(owner string, expires int64) string {
	return Root + time.Unix(expires, 0).UTC().Format(time.DateOnly) + "/" + owner + "/"
}

// A List is the index of a list. Its zero value is an empty list. Lists are not changed: see Plus and Without.
type List struct {
	seed   []byte // of marks
	pieces []piece
	tail   []json.RawMessage
	within string // the blob that has the pieces which have no segment
	from   int64  // where they begin in the file
}

// A piece is some items of a list.
type piece struct {
	day     int64  // of its folder, in days; with segment
	segment string // the last part of its name; "": it is in the blob of the index
	offset  int64  // in that
	sealed  int64  // bytes
	count   int
	bytes   int64             // of the items
	marks   []byte            // of their ids
	items   []json.RawMessage // of one that is not written yet
}

// Len is the number of items.
func (l *List) Len() int {
	n := len(l.tail)
	for i := range l.pieces {
		n += l.pieces[i].count
	}
	return n
}

// Bytes is the size of all items.
func (l *List) Bytes() int64 {
	n := Size(l.tail)
	for i := range l.pieces {
		n += l.pieces[i].bytes
	}
	return n
}

// Size is the size of items.
func Size(items []json.RawMessage) (n int64) {
	for _, item := range items {
		n += int64(len(item))
	}
	return n
}

// Plus returns a list with more items.
func (l *List) Plus(more []json.RawMessage) *List {
	next := l.copied()
	next.tail = slices.Concat(l.tail, more)
	if Size(next.tail) <= maxTail {
		return next
	}
	packed := pack(next.tail)
	if last := len(packed) - 1; Size(packed[last]) <= maxTail {
		next.tail, packed = packed[last], packed[:last]
	} else {
		next.tail = nil
	}
	for _, items := range packed {
		next.pieces = append(next.pieces, next.pieceOf(items))
	}
	return next
}

func (l *List) copied() *List {
	next := *l
	next.pieces = slices.Clone(l.pieces)
	if next.seed == nil {
		next.seed = make([]byte, 8)
		_, _ = rand.Read(next.seed) // it never fails
	}
	return &next
}

// pack cuts items into pieces.
func pack(items []json.RawMessage) (pieces [][]json.RawMessage) {
	begin, size := 0, 0
	for i, item := range items {
		if i > begin && size+len(item) > maxPiece {
			pieces = append(pieces, items[begin:i:i])
			begin, size = i, 0
		}
		size += len(item)
	}
	return append(pieces, items[begin:])
}

func (l *List) pieceOf(items []json.RawMessage) piece {
	p := piece{count: len(items), bytes: Size(items), items: items}
	for _, item := range items {
		p.marks = append(p.marks, l.mark(idOf(item))...)
	}
	return p
}

func idOf(item json.RawMessage) string { return gjson.GetBytes(item, "id").Str }

// mark is the beginning of a hash of an id. Clients choose ids, and do not know the seed.
func (l *List) mark(id string) []byte {
	sum := sha256.Sum256(append(slices.Clone(l.seed), id...))
	return sum[:markBytes]
}

// may reports whether a piece may have an item with a mark.
func (p *piece) may(mark []byte) bool {
	for at := 0; at+markBytes <= len(p.marks); at += markBytes {
		if string(p.marks[at:at+markBytes]) == string(mark) {
			return true
		}
	}
	return false
}

// format is the first byte of an index.
const format = 1

// encode returns the index as text. All pieces are written.
func (l *List) encode() []byte {
	text := append([]byte{format}, l.seed...)
	text = binary.AppendUvarint(text, uint64(len(l.pieces)))
	for i := range l.pieces {
		p := &l.pieces[i]
		text = binary.AppendUvarint(text, uint64(len(p.segment)))
		text = append(text, p.segment...)
		for _, n := range []int64{p.day, p.offset, p.sealed, int64(p.count), p.bytes} {
			text = binary.AppendUvarint(text, uint64(n)) //nolint:gosec // none is negative
		}
		text = append(text, p.marks...)
	}
	return appendItems(text, l.tail)
}

var errFormat = errors.New("it is no index")

// decode is the inverse of encode.
func decode(text []byte) (*List, error) {
	const seed = 8
	if len(text) < 1+seed || text[0] != format {
		return nil, errFormat
	}
	l := &List{seed: text[1 : 1+seed]}
	d := decoder{text: text[1+seed:]}
	for range d.number() {
		p := piece{segment: string(d.bytes(d.number()))}
		p.day, p.offset, p.sealed, p.count, p.bytes = d.number(), d.number(), d.number(), int(d.number()), d.number()
		p.marks = d.bytes(int64(markBytes * p.count))
		if d.failed {
			return nil, errFormat
		}
		l.pieces = append(l.pieces, p)
	}
	l.tail = d.items()
	if d.failed || len(d.text) > 0 {
		return nil, errFormat
	}
	return l, nil
}

func appendItems(dst []byte, items []json.RawMessage) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(items)))
	for _, item := range items {
		dst = append(binary.AppendUvarint(dst, uint64(len(item))), item...)
	}
	return dst
}

// decodeItems is the inverse of appendItems. The items are parts of the text.
func decodeItems(text []byte) ([]json.RawMessage, error) {
	d := decoder{text: text}
	items := d.items()
	if d.failed || len(d.text) > 0 {
		return nil, fmt.Errorf("items: %w", errFormat)
	}
	return items, nil
}

type decoder struct {
	text   []byte
	failed bool
}

func (d *decoder) number() int64 {
	n, size := binary.Uvarint(d.text)
	if size <= 0 || n > 1<<40 {
		d.failed, d.text = true, nil
		return 0
	}
	d.text = d.text[size:]
	return int64(n)
}

func (d *decoder) bytes(n int64) []byte {
	if n < 0 || n > int64(len(d.text)) {
		d.failed, d.text = true, nil
		return nil
	}
	b := d.text[:n:n]
	d.text = d.text[n:]
	return b
}

func (d *decoder) items() (items []json.RawMessage) {
	for range d.number() {
		items = append(items, d.bytes(d.number()))
		if d.failed {
			return nil
		}
	}
	return items
}
