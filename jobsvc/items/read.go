package items

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"

	"gocloud.dev/blob"
	"golang.org/x/sync/errgroup"

	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/jobsvc/memory"
)

// A Store has the lists of one object. What is read counts for the hold of the context, with copies of it: as it is
// sealed, and as it is opened.
type Store struct {
	Bucket *blob.Bucket
	Sealer *secret.Sealer
	Owner  string // the object's id
}

const (
	copies = 2
	// ahead is how much of an index is read before its size is known.
	ahead = 64 << 10
	// header is the length of a sealed index before it.
	header = 4
	// maxIndex is the size of the largest index, in bytes.
	maxIndex = 8 << 20
	// atOnce is how many pieces are read at the same time.
	atOnce = 8
)

// Open reads the index of a list.
func (s *Store) Open(ctx context.Context, name string) (*List, error) {
	h := memory.Of(ctx)
	if err := h.Take(ctx, ahead); err != nil {
		return nil, err
	}
	text, err := s.read(ctx, name, 0, ahead, false)
	if err != nil {
		return nil, err
	}
	if len(text) < header {
		return nil, fmt.Errorf("%s: %w", name, ErrMissing)
	}
	size := int64(binary.BigEndian.Uint32(text))
	if size > maxIndex {
		return nil, fmt.Errorf("%s: its index has %d bytes: %w", name, size, ErrMissing)
	}
	sealed := text[header:min(int64(len(text)), header+size)]
	if left := size - int64(len(sealed)); left > 0 {
		if err := h.Take(ctx, copies*size); err != nil {
			return nil, err
		}
		rest, err := s.read(ctx, name, int64(len(text)), left, true)
		if err != nil {
			return nil, err
		}
		sealed = slices.Concat(sealed, rest)
	}
	plain, err := s.open(name, indexField, sealed)
	if err != nil {
		return nil, err
	}
	l, err := decode(plain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrMissing, err)
	}
	l.within, l.from = name, header+size
	return l, nil
}

const indexField = "index"

// open opens what is sealed. A seal names the object, but not the day of its folder, which changes.
func (s *Store) open(name, field string, sealed []byte) ([]byte, error) {
	plain, err := s.Sealer.OpenBytes("Items", s.Owner+"/"+path.Base(name), field, sealed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrMissing, err)
	}
	return plain, nil
}

func (s *Store) seal(name, field string, plain []byte) []byte {
	return s.Sealer.SealBytes("Items", s.Owner+"/"+path.Base(name), field, plain)
}

// read reads so many bytes of a blob, or, unless all are needed, as many as there are.
func (s *Store) read(ctx context.Context, name string, offset, length int64, all bool) ([]byte, error) {
	r, err := s.Bucket.NewRangeReader(ctx, name, offset, length, nil)
	if blobstore.IsMissing(err) {
		return nil, fmt.Errorf("%s: %w", name, ErrMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer func() { _ = r.Close() }() // it was only read
	text := make([]byte, length)
	n, err := io.ReadFull(r, text)
	short := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
	switch {
	case short && all:
		return nil, fmt.Errorf("%s ends too early: %w", name, ErrMissing)
	case err != nil && !short:
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text[:n], nil
}

// segmentName is the name of the blob of a segment.
func (s *Store) segmentName(p *piece) string { return Folder(s.Owner, p.day*day) + p.segment }

// place returns the blob of a piece, its offset there, and the field of its seal.
func (s *Store) place(l *List, p *piece) (name string, offset int64, field string) {
	if p.segment != "" {
		return s.segmentName(p), 0, "0"
	}
	return l.within, l.from + p.offset, strconv.FormatInt(p.offset, 10)
}

// itemsOf returns the items of a piece.
func (s *Store) itemsOf(ctx context.Context, l *List, p *piece) ([]json.RawMessage, error) {
	if p.items != nil {
		return p.items, nil
	}
	name, offset, field := s.place(l, p)
	sealed, err := s.read(ctx, name, offset, p.sealed, true)
	if err != nil {
		return nil, err
	}
	plain, err := s.open(name, field, sealed)
	if err != nil {
		return nil, err
	}
	items, err := decodeItems(plain)
	if err == nil && len(items) != p.count {
		err = errors.New("the index says otherwise")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrMissing, err)
	}
	return items, nil
}

// Walk gives the items from a position on to take, up or down, and no more than so many. Take must not keep them: what
// they take in memory is given back.
func (s *Store) Walk(ctx context.Context, l *List, from, most int, down bool, take func(json.RawMessage) error) error {
	end := min(from+most, l.Len())
	if down {
		from, end = max(0, from-most+1), from+1
	}
	places := l.overlap(from, end)
	if down {
		slices.Reverse(places)
	}
	for _, at := range places {
		if err := s.part(ctx, l, at, from, end, down, take); err != nil {
			return err
		}
	}
	return nil
}

// A span is where a piece is in a list; one without a piece is the tail.
type span struct {
	piece *piece
	first int
}

// overlap returns what has the items between two positions.
func (l *List) overlap(from, end int) (spans []span) {
	first := 0
	for i := range l.pieces {
		p := &l.pieces[i]
		if first < end && first+p.count > from {
			spans = append(spans, span{p, first})
		}
		first += p.count
	}
	if first < end && len(l.tail) > 0 {
		spans = append(spans, span{nil, first})
	}
	return spans
}

func (s *Store) part(ctx context.Context, l *List, at span, from, end int, down bool,
	take func(json.RawMessage) error) error {
	items := l.tail
	if at.piece != nil {
		h := memory.Of(ctx)
		defer h.Mark()()
		err := h.Take(ctx, copies*at.piece.sealed)
		if err == nil {
			items, err = s.itemsOf(ctx, l, at.piece)
		}
		if err != nil {
			return err
		}
	}
	some := slices.Clone(items[max(0, from-at.first):min(len(items), end-at.first)])
	if down {
		slices.Reverse(some)
	}
	for _, item := range some {
		if err := take(item); err != nil {
			return err
		}
	}
	return nil
}

// Find returns the first item with an id and its position, which is -1 if there is none.
func (s *Store) Find(ctx context.Context, l *List, id string) (int, json.RawMessage, error) {
	first, mark := 0, l.mark(id)
	for i := range l.pieces {
		p := &l.pieces[i]
		if p.may(mark) {
			at, item, err := s.findIn(ctx, l, p, id)
			if err != nil || at >= 0 {
				return first + at, item, err
			}
		}
		first += p.count
	}
	if at := indexOf(l.tail, id); at >= 0 {
		return first + at, l.tail[at], nil
	}
	return -1, nil, nil
}

func indexOf(items []json.RawMessage, id string) int {
	return slices.IndexFunc(items, func(item json.RawMessage) bool { return idOf(item) == id })
}

func (s *Store) findIn(ctx context.Context, l *List, p *piece, id string) (int, json.RawMessage, error) {
	h := memory.Of(ctx)
	giveBack := h.Mark()
	err := h.Take(ctx, copies*p.sealed)
	var items []json.RawMessage
	if err == nil {
		items, err = s.itemsOf(ctx, l, p)
	}
	if at := indexOf(items, id); err == nil && at >= 0 {
		return at, items[at], nil
	}
	giveBack()
	return -1, nil, err
}

// All returns all items.
func (s *Store) All(ctx context.Context, l *List) ([]json.RawMessage, error) {
	h := memory.Of(ctx)
	var most int64
	for i := range l.pieces {
		most = max(most, l.pieces[i].sealed)
	}
	if err := h.Take(ctx, l.Bytes()+min(atOnce*most, l.Bytes())); err != nil {
		return nil, err
	}
	parts := make([][]json.RawMessage, len(l.pieces)+1)
	parts[len(l.pieces)] = l.tail
	g, all := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range l.pieces {
		g.Go(func() (err error) {
			parts[i], err = s.itemsOf(all, l, &l.pieces[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	h.Give(min(atOnce*most, l.Bytes()))
	return slices.Concat(parts...), nil
}
