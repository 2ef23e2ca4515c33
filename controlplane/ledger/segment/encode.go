package segment

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

const (
	// pageBytes is how large a page is before it is compressed.
	pageBytes = 64 << 10
	// bloomBits is how many bits a filter of the file has for each value. Others use it.
	bloomBits = 10

	// Members of the metadata of a segment.
	keyVersion = "modelgate.version"
	keySums    = "modelgate.checksums"
)

// castagnoli is what processors compute.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // the package keeps it

// An Encoder encodes segments. It is for one goroutine at a time, and keeps buffers of a few megabytes.
type Encoder struct {
	schema *schema
	out    bytes.Buffer
	writer *parquet.GenericWriter[any]
	order  []*Row
	values []parquet.Value
}

// NewEncoder returns an encoder.
func NewEncoder() *Encoder {
	e := &Encoder{schema: theSchema()}
	e.writer = parquet.NewGenericWriter[any](&e.out, e.schema.parquet,
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.PageBufferSize(pageBytes), parquet.CreatedBy("modelgate", "", ""),
		parquet.BloomFilters(parquet.SplitBlockFilter(bloomBits, "id"), parquet.SplitBlockFilter(bloomBits, "request_id")),
		parquet.KeyValueMetadata(keyVersion, strconv.Itoa(Version)))
	return e
}

// Encode returns a segment of rows, of which there is at least one, and its summary. The order of the rows does not
// matter.
func (e *Encoder) Encode(rows []Row) ([]byte, *Summary, error) {
	if len(rows) == 0 {
		return nil, nil, errors.New("encoding a segment: it has no rows")
	}
	e.order = e.order[:0]
	for i := range rows {
		e.order = append(e.order, &rows[i])
	}
	slices.SortFunc(e.order, func(a, b *Row) int { return compare(a.StartedAt, a.ID, b.StartedAt, b.ID) })
	defer func() { clear(e.order); clear(e.values) }() // they hold strings
	e.out.Reset()
	e.writer.Reset(&e.out)
	groups := (len(rows) + GroupRows - 1) / GroupRows
	sums := newChecksums(groups * len(e.schema.columns))
	e.writer.SetKeyValueMetadata(keySums, sums.text())
	s := &Summary{Rows: len(rows)}
	for some := range slices.Chunk(e.order, GroupRows) {
		if err := e.group(some); err != nil {
			return nil, nil, fmt.Errorf("encoding a segment: %w", err)
		}
		s.Groups = append(s.Groups, summarize(e.schema, some))
	}
	if err := e.writer.Close(); err != nil {
		return nil, nil, fmt.Errorf("encoding a segment: %w", err)
	}
	body := bytes.Clone(e.out.Bytes())
	if err := sums.seal(body, e.writer.File().Metadata()); err != nil {
		return nil, nil, fmt.Errorf("encoding a segment: %w", err)
	}
	s.Bytes = int64(len(body))
	s.From, s.To = e.order[0].StartedAt, e.order[len(e.order)-1].StartedAt
	return body, s, nil
}

// group writes a row group.
func (e *Encoder) group(rows []*Row) error {
	for i, w := range e.writer.ColumnWriters() {
		c := &e.schema.columns[i]
		e.values = e.values[:0]
		if c.in == nil {
			for _, r := range rows {
				e.values = append(e.values, c.value(r, 0))
			}
		} else {
			e.elements(c, rows)
		}
		if _, err := w.WriteRowValues(e.values); err != nil {
			return fmt.Errorf("column %s: %w", c.path(), err)
		}
	}
	return e.writer.Flush()
}

// elements adds the values of a column of a list. One without elements has a value, which is null.
func (e *Encoder) elements(c *column, rows []*Row) {
	for _, r := range rows {
		n := c.in.length(r)
		if n == 0 {
			e.values = append(e.values, parquet.NullValue().Level(0, 0, c.leaf))
		}
		for i := range n {
			e.values = append(e.values, c.value(r, i).Level(min(i, 1), 1, c.leaf))
		}
	}
}

// value returns the value of a row, or of the element of its list.
func (c *column) value(r *Row, i int) parquet.Value {
	switch {
	case c.text != nil:
		s := *c.text(r, i)
		return parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(s), len(s))) // nobody writes to it
	case c.flag != nil:
		return parquet.BooleanValue(*c.flag(r, i))
	}
	return parquet.Int64Value(*c.number(r, i))
}

// path names a column for people.
func (c *column) path() string {
	switch {
	case c.in == nil:
		return c.name
	case c.name == "":
		return c.in.name
	}
	return c.in.name + "." + c.name
}

// Checksums are those of the footer, in which they are, and of the chunks of columns in their order.
type checksums []byte

// sumSize is the size of one.
const sumSize = 4

func newChecksums(chunks int) checksums { return make(checksums, (1+chunks)*sumSize) }

// text returns them as they are in the metadata.
func (c checksums) text() string { return base64.RawStdEncoding.EncodeToString(c) }

func (c checksums) of(i int) uint32 { return binary.LittleEndian.Uint32(c[i*sumSize:]) }

func (c checksums) set(i int, sum uint32) { binary.LittleEndian.PutUint32(c[i*sumSize:], sum) }

// seal computes them, and writes them into the segment in the place of those that are 0.
func (c checksums) seal(body []byte, meta *format.FileMetaData) error {
	footer, err := footerOf(body)
	if err != nil {
		return err
	}
	at := bytes.LastIndex(footer, []byte(c.text()))
	if at < 0 {
		return errors.New("the footer has no place for checksums")
	}
	i := 0
	for _, g := range meta.RowGroups {
		for k := range g.Columns {
			from, size := extent(&g.Columns[k].MetaData)
			i++
			c.set(i, crc32.Checksum(body[from:from+size], castagnoli()))
		}
	}
	copy(footer[at:], c.text()) // that of the footer is computed while it is 0 itself
	c.set(0, crc32.Checksum(footer, castagnoli()))
	copy(footer[at:], c.text())
	return nil
}

// extent returns where a chunk is.
func extent(m *format.ColumnMetaData) (from, size int64) {
	from = m.DataPageOffset
	if m.DictionaryPageOffset > 0 {
		from = min(from, m.DictionaryPageOffset)
	}
	return from, m.TotalCompressedSize
}

const (
	magic = "PAR1"
	// tail is how many bytes come after the footer: its length, and the magic.
	tail = 8
)

var errCut = errors.New("it is cut, or no segment")

// footerOf returns the footer of a segment that ends there.
func footerOf(end []byte) ([]byte, error) {
	n := len(end) - tail
	if n < 0 || string(end[n+4:]) != magic {
		return nil, errCut
	}
	size := int64(binary.LittleEndian.Uint32(end[n:]))
	if size > int64(n) {
		return nil, errCut
	}
	return end[int64(n)-size : n], nil
}
