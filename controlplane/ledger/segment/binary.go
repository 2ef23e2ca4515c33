package segment

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"github.com/parquet-go/parquet-go/bloom"
)

// summaryVersion is the first byte of an encoded summary. It grows where setColumns or spanColumns change.
const summaryVersion = 1

var errSummary = errors.New("a summary of a segment is damaged, or of another version")

// Append appends the encoded summary.
func (s *Summary) Append(to []byte) []byte {
	to = append(to, summaryVersion)
	to = binary.AppendUvarint(to, uint64(s.Bytes))
	to = binary.AppendUvarint(to, uint64(len(s.Groups)))
	for i := range s.Groups {
		g := &s.Groups[i]
		to = binary.AppendUvarint(to, uint64(g.Rows))
		to = binary.AppendVarint(to, g.From)
		to = binary.AppendVarint(to, g.To)
		for k := range g.sets {
			to = g.sets[k].append(to)
		}
		for _, x := range g.spans {
			to = binary.AppendVarint(binary.AppendVarint(to, x.least), x.most)
		}
	}
	return to
}

func (s *set) append(to []byte) []byte {
	if s.filter != nil {
		to = append(binary.AppendUvarint(to, uint64(len(s.filter))), 1)
		return append(to, s.filter.Bytes()...)
	}
	to = append(binary.AppendUvarint(to, uint64(len(s.exact))), 0)
	for _, x := range s.exact {
		to = append(binary.AppendUvarint(to, uint64(len(x))), x...)
	}
	return to
}

// ParseSummary decodes what Append has encoded.
func ParseSummary(from []byte) (*Summary, error) {
	d := &decoder{from: from}
	if string(d.bytes(1)) != string(rune(summaryVersion)) {
		return nil, errSummary
	}
	s := &Summary{Bytes: int64(d.unsigned())}
	for range d.length(1) {
		g := GroupSummary{Rows: int(d.unsigned()), From: d.signed(), To: d.signed()}
		for range setColumns() {
			g.sets = append(g.sets, d.set())
		}
		for range spanColumns() {
			g.spans = append(g.spans, span{d.signed(), d.signed()})
		}
		if d.bad {
			break
		}
		if s.Groups, s.Rows = append(s.Groups, g), s.Rows+g.Rows; len(s.Groups) == 1 {
			s.From = g.From
		}
		s.To = g.To
	}
	if d.bad || len(d.from) > 0 {
		return nil, errSummary
	}
	return s, nil
}

// A decoder reads an encoded summary. Once it is bad it reads nothing.
type decoder struct {
	from []byte
	bad  bool
}

func (d *decoder) fail() {
	d.bad, d.from = true, nil
}

func (d *decoder) unsigned() uint64 { return varint(d, binary.Uvarint) }

func (d *decoder) signed() int64 { return varint(d, binary.Varint) }

func varint[T int64 | uint64](d *decoder, read func([]byte) (T, int)) T {
	x, n := read(d.from)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.from = d.from[n:]
	return x
}

// length reads how many there are of what takes at least so many bytes each.
func (d *decoder) length(least int) int {
	n := d.unsigned()
	if n > uint64(len(d.from)/least) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) bytes(n int) []byte {
	if n > len(d.from) {
		d.fail()
		return nil
	}
	b := d.from[:n]
	d.from = d.from[n:]
	return b
}

func (d *decoder) set() (s set) {
	n := d.unsigned()
	const block = int(unsafe.Sizeof(bloom.Block{}))
	kind := d.bytes(1)
	if d.bad || n > uint64(len(d.from)) {
		d.fail()
		return s
	}
	if kind[0] == 1 {
		if n == 0 || n > uint64(len(d.from)/block) {
			d.fail()
			return s
		}
		s.filter = make(bloom.SplitBlockFilter, n)
		copy(s.filter.Bytes(), d.bytes(int(n)*block))
		return s
	}
	for range n {
		s.exact = append(s.exact, string(d.bytes(d.length(1))))
	}
	return s
}
