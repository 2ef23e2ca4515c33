package backup

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"
)

// format is the version of the file: lines of JSON, compressed. The first is a Header. Then come keys of etcd in
// ascending order, then tables of the ledger, each before its rows. The last says how many there were, and the hash of
// all before it.
const format = 1

// maxLine bounds a line that is read: a value of etcd has at most 1.5 MiB, a row of the ledger less.
const maxLine = 32 << 20

// A Header says what a backup is of.
type Header struct {
	Format  int       `json:"format"`
	Created time.Time `json:"created"`
	// By is the version of the program that made it.
	By string `json:"by"`
	// Root is the fingerprint of the root secret, without which keys cannot be checked nor credentials be opened.
	Root string `json:"root"`
	// Revision of etcd at which all of its keys were read.
	Revision int64 `json:"revision"`
	// Ledger says whether the ledger is in the backup.
	Ledger bool `json:"ledger"`
}

// Counts are the counts of objects and rows in a backup.
type Counts struct {
	Keys int64 `json:"keys"`
	Rows int64 `json:"rows"` // of the ledger
}

// A line is one of these.
type line struct {
	Header  *Header  `json:"backup,omitempty"`
	Key     []byte   `json:"key,omitempty"`
	Value   []byte   `json:"value,omitempty"`
	Table   string   `json:"table,omitempty"`
	Columns []string `json:"columns,omitempty"`
	Row     []any    `json:"row,omitempty"`
	End     *end     `json:"end,omitempty"`
}

type end struct {
	Counts
	SHA256 string `json:"sha256"`
}

// ErrDamaged is that a file is no whole backup.
var ErrDamaged = errors.New("the file is not a whole backup")

func damaged(why string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(why, args...))
}

// A writer writes a backup. Nothing of it can be used before finish.
type writer struct {
	zip    *gzip.Writer
	sum    hash.Hash
	counts Counts
}

func newWriter(to io.Writer, h Header) (*writer, error) {
	w := &writer{zip: gzip.NewWriter(to), sum: sha256.New()}
	return w, w.write(line{Header: &h})
}

func (w *writer) write(l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	text = append(text, '\n')
	_, _ = w.sum.Write(text) // a hash takes anything
	if _, err := w.zip.Write(text); err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	return nil
}

func (w *writer) key(key, value []byte) error {
	w.counts.Keys++
	return w.write(line{Key: key, Value: value})
}

// Table begins a table of the ledger.
func (w *writer) Table(name string, columns []string) error {
	return w.write(line{Table: name, Columns: columns})
}

// Row adds a row of the ledger.
func (w *writer) Row(values []any) error {
	w.counts.Rows++
	return w.write(line{Row: values})
}

func (w *writer) finish() error {
	if err := w.write(line{End: &end{w.counts, hex.EncodeToString(w.sum.Sum(nil))}}); err != nil {
		return err
	}
	if err := w.zip.Close(); err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	return nil
}

// read calls begin with the header and then visit for each further line, and returns what there was. The error is
// ErrDamaged if the file is cut, changed or none of ours, which may be known only at its end.
func read(from io.Reader, begin func(Header) error, visit func(line) error) (Counts, error) {
	zip, err := gzip.NewReader(from)
	if err != nil {
		return Counts{}, damaged("it does not begin as one: %w", err)
	}
	in := bufio.NewReaderSize(zip, 64<<10)
	sum := sha256.New()
	var counts Counts
	for number := 1; ; number++ {
		text, err := readLine(in)
		if err != nil {
			return counts, damaged("after line %d: %w", number-1, err)
		}
		l, err := parse(text)
		switch {
		case err != nil:
			return counts, damaged("line %d: %w", number, err)
		case (number == 1) != (l.Header != nil):
			return counts, damaged("line %d: the header is the first line, and nothing else is", number)
		case l.Header != nil && l.Header.Format > format:
			return counts,
				fmt.Errorf("the backup has format %d, of another version of modelgate (%s); this one reads format %d",
					l.Header.Format, l.Header.By, format)
		case l.Header != nil && l.Header.Format < 1:
			return counts, damaged("line %d: it says no format", number)
		case l.Header != nil:
			err = begin(*l.Header)
		case l.End != nil:
			return counts, check(in, *l.End, counts, sum)
		default:
			counts.count(l)
			err = visit(l)
		}
		if err != nil {
			return counts, err
		}
		_, _ = sum.Write(text)
	}
}

func (c *Counts) count(l line) {
	switch {
	case l.Row != nil:
		c.Rows++
	case l.Key != nil:
		c.Keys++
	}
}

// check compares the counts and the hash of the content with its last line, and that nothing follows that line.
func check(in *bufio.Reader, e end, counts Counts, sum hash.Hash) error {
	if e.Counts != counts || e.SHA256 != hex.EncodeToString(sum.Sum(nil)) {
		return damaged("its content is not what its last line says")
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) { // the end of the compressed stream checks itself
		return damaged("it goes on after its last line: %w", err)
	}
	return nil
}

func readLine(in *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		piece, err := in.ReadSlice('\n')
		text = append(text, piece...)
		switch {
		case err == nil:
			return text, nil
		case errors.Is(err, io.EOF):
			return nil, errors.New("it ends before its last line")
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(text) > maxLine:
			return nil, errors.New("a line is too long")
		}
	}
}

func parse(text []byte) (line, error) {
	var l line
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // what costs much is more than a float64 holds
	if err := d.Decode(&l); err != nil {
		return line{}, err
	}
	for i, v := range l.Row {
		switch v := v.(type) {
		case string:
		case json.Number:
			n, err := v.Int64()
			if err != nil {
				return line{}, err
			}
			l.Row[i] = n
		default:
			return line{}, errors.New("a value is neither text nor a whole number")
		}
	}
	return l, nil
}
