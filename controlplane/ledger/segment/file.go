package segment

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"

	"github.com/parquet-go/parquet-go"
)

// maxFooter bounds the footer of a segment.
const maxFooter = 64 << 20

// A File is an open segment. It is safe for concurrent use if its reader is.
type File struct {
	name   string
	reader io.ReaderAt
	schema *schema
	file   *parquet.File
	sums   checksums
	leaves []int // of the file, by the columns of the schema; -1: it has none
}

// Open opens a segment. Errors name it.
func Open(name string, r io.ReaderAt, size int64) (f *File, err error) {
	defer named(name, &err)
	f = &File{name: name, reader: r, schema: theSchema()}
	footer, err := readFooter(r, size)
	if err != nil {
		return nil, err
	}
	if f.file, err = parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true)); err != nil {
		return nil, err
	}
	version, _ := f.file.Lookup(keyVersion)
	if n, err := strconv.Atoi(version); err != nil || n > Version {
		return nil, fmt.Errorf("it has version %q of the schema, and %d is known", version, Version)
	}
	kept, _ := f.file.Lookup(keySums)
	if f.sums, err = base64.RawStdEncoding.DecodeString(kept); err != nil {
		return nil, err
	}
	if err := f.check(footer, kept); err != nil {
		return nil, err
	}
	return f, f.match()
}

// OpenBytes opens a segment in memory.
func OpenBytes(name string, body []byte) (*File, error) {
	return Open(name, bytes.NewReader(body), int64(len(body)))
}

// named adds to an error which segment it is of, and makes one of a panic of the library.
func named(name string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("it is broken: %v", p)
	}
	if *err != nil {
		*err = fmt.Errorf("segment %s: %w", name, *err)
	}
}

func readFooter(r io.ReaderAt, size int64) ([]byte, error) {
	var end [tail]byte
	if size < int64(len(magic)+tail) {
		return nil, errCut
	}
	if err := readFull(r, end[:], size-tail); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	if string(end[4:]) != magic || n > min(size-int64(len(magic)+tail), maxFooter) {
		return nil, errCut
	}
	footer := make([]byte, n)
	return footer, readFull(r, footer, size-tail-n)
}

func readFull(r io.ReaderAt, to []byte, at int64) error {
	n, err := r.ReadAt(to, at)
	if n == len(to) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return errCut
	}
	return err
}

// check compares the checksum of the footer.
func (f *File) check(footer []byte, kept string) error {
	chunks := 0
	for _, g := range f.file.RowGroups() {
		chunks += len(g.ColumnChunks())
	}
	at := bytes.LastIndex(footer, []byte(kept))
	if len(f.sums) != (1+chunks)*sumSize || at < 0 {
		return errors.New("it lacks checksums")
	}
	want := f.sums.of(0)
	unsealed := bytes.Clone(f.sums)
	checksums(unsealed).set(0, 0)
	copy(footer[at:], checksums(unsealed).text())
	if crc32.Checksum(footer, castagnoli()) != want {
		return errors.New("its footer is damaged")
	}
	return nil
}

// match finds the columns of the schema in the file. One that an older version lacks is empty.
func (f *File) match() error {
	f.leaves = make([]int, len(f.schema.columns))
	for i := range f.schema.columns {
		c := &f.schema.columns[i]
		f.leaves[i] = -1
		leaf, ok := f.file.Schema().Lookup(c.levels()...)
		if !ok {
			continue
		}
		if want := c.node().Type().Kind(); leaf.Node.Type().Kind() != want {
			return fmt.Errorf("its column %s has another type", c.path())
		}
		f.leaves[i] = leaf.ColumnIndex
	}
	return nil
}

// levels returns the names on the way to a leaf.
func (c *column) levels() []string {
	switch {
	case c.in == nil:
		return []string{c.name}
	case c.name == "":
		return []string{c.in.name, "list", "element"}
	}
	return []string{c.in.name, "list", "element", c.name}
}

// Groups returns how many row groups there are.
func (f *File) Groups() int { return len(f.file.RowGroups()) }

// load reads a column of a row group, and compares its checksum.
func (f *File) load(group int, c *column) (v *values, err error) {
	defer named(f.name, &err)
	g := f.file.RowGroups()[group]
	rows := int(g.NumRows())
	leaf := f.leaves[c.leaf]
	if leaf < 0 {
		return emptyValues(c, rows), nil
	}
	chunk, ok := g.ColumnChunks()[leaf].(*parquet.FileColumnChunk)
	if !ok {
		return nil, errors.New("it has an unknown form")
	}
	from, size := extent(&f.file.Metadata().RowGroups[group].Columns[leaf].MetaData)
	if from < 0 || size < 0 || size > maxChunk {
		return nil, errCut
	}
	body := make([]byte, size)
	if err := readFull(f.reader, body, from); err != nil {
		return nil, err
	}
	if f.sums.of(1+group*len(g.ColumnChunks())+leaf) != crc32.Checksum(body, castagnoli()) {
		return nil, fmt.Errorf("column %s of row group %d is damaged", c.path(), group)
	}
	pages := chunk.PagesFrom(&part{from, body})
	defer func() { _ = pages.Close() }() // it has only read
	if v, err = read(pages, c, rows); err != nil {
		return nil, fmt.Errorf("column %s of row group %d: %w", c.path(), group, err)
	}
	return v, nil
}

// maxChunk bounds a column of a row group.
const maxChunk = 256 << 20

// A part is a part of a file in memory, at its place.
type part struct {
	from int64
	body []byte
}

// ReadAt implements [io.ReaderAt].
func (p *part) ReadAt(to []byte, at int64) (int, error) {
	at -= p.from
	if at < 0 || at > int64(len(p.body)) {
		return 0, errCut
	}
	n := copy(to, p.body[at:])
	if n < len(to) {
		return n, io.EOF
	}
	return n, nil
}
