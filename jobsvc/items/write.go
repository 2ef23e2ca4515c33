package items

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"gocloud.dev/blob"
	"golang.org/x/sync/errgroup"

	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/jobsvc/memory"
)

// A Change is a list that was written and is not named by a record yet. Exactly one of the two is removed after the
// transaction that is to name it: what was written, or what it replaces.
type Change struct {
	List *List
	Name string // of its index

	Written, Replaced []string // names of blobs
}

// Without returns a list without the item at a position.
func (s *Store) Without(ctx context.Context, l *List, at int) (*List, error) {
	next := l.copied()
	for i := range next.pieces {
		p := &next.pieces[i]
		if at >= p.count {
			at -= p.count
			continue
		}
		err := memory.Of(ctx).Take(ctx, copies*p.sealed)
		var items []json.RawMessage
		if err == nil {
			items, err = s.itemsOf(ctx, l, p)
		}
		if err != nil {
			return nil, err
		}
		if p.count == 1 {
			next.pieces = slices.Delete(next.pieces, i, i+1)
		} else {
			*p = next.pieceOf(slices.Concat(items[:at], items[at+1:]))
		}
		return next, nil
	}
	next.tail = slices.Concat(l.tail[:at], l.tail[at+1:])
	return next, nil
}

// Save writes a list in place of another, for an object that expires at a time, in Unix seconds. The folder of its
// index has that day. Segments have a day that is up to slack seconds later, so that they need not be written again
// when a change puts off the expiry a little; those whose day comes too soon are.
func (s *Store) Save(ctx context.Context, was, l *List, expires, slack int64) (c *Change, err error) {
	l = l.copied()
	c = &Change{List: l, Name: Folder(s.Owner, expires) + id.Bare()}
	fresh := make([]bool, len(l.pieces))
	for i := range l.pieces {
		if p := &l.pieces[i]; p.items != nil || p.day < expires/day {
			fresh[i] = true
			c.Written = append(c.Written, s.renamed(p, (expires+slack)/day))
		}
	}
	c.Written = append(c.Written, c.Name)
	if err := s.saveSegments(ctx, was, l, fresh); err != nil {
		return c, err
	}
	if err := s.writeIndex(ctx, c.Name, l, nil); err != nil {
		return c, err
	}
	l.within, l.from = c.Name, 0
	now := s.blobs(l)
	for _, name := range s.blobs(was) {
		if !slices.Contains(now, name) {
			c.Replaced = append(c.Replaced, name)
		}
	}
	return c, nil
}

// renamed gives a piece a segment of its own, which is not written yet, and returns its name.
func (s *Store) renamed(p *piece, day int64) string {
	if p.items != nil {
		p.segment, p.offset = id.Bare(), 0
	}
	p.day = day
	return s.segmentName(p)
}

// saveSegments writes the segments of fresh pieces: new ones, and those that move to another folder.
func (s *Store) saveSegments(ctx context.Context, was, l *List, fresh []bool) error {
	old := map[string]*piece{}
	for i := range was.pieces {
		old[was.pieces[i].segment] = &was.pieces[i]
	}
	g, all := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range l.pieces {
		if !fresh[i] {
			continue
		}
		p := &l.pieces[i]
		g.Go(func() error {
			if p.items == nil {
				return s.move(all, old[p.segment], p)
			}
			sealed := s.seal(p.segment, "0", appendItems(nil, p.items))
			p.sealed, p.items = int64(len(sealed)), nil
			return s.write(all, s.segmentName(p), sealed)
		})
	}
	return g.Wait()
}

// move copies a segment to the folder of another day.
func (s *Store) move(ctx context.Context, from, to *piece) error {
	h := memory.Of(ctx)
	if err := h.Take(ctx, from.sealed); err != nil {
		return err
	}
	defer h.Give(from.sealed)
	sealed, err := s.read(ctx, s.segmentName(from), 0, from.sealed, true)
	if err != nil {
		return err
	}
	return s.write(ctx, s.segmentName(to), sealed)
}

// blobs returns the names of all blobs of a list.
func (s *Store) blobs(l *List) (names []string) {
	for i := range l.pieces {
		if p := &l.pieces[i]; p.segment != "" {
			names = append(names, s.segmentName(p))
		}
	}
	if l.within != "" {
		names = append(names, l.within)
	}
	return names
}

// Blobs returns the names of all blobs of the list whose index has a name.
func (s *Store) Blobs(ctx context.Context, name string) ([]string, error) {
	l, err := s.Open(ctx, name)
	if err != nil {
		return []string{name}, err
	}
	return s.blobs(l), nil
}

// WriteWhole writes a list that never changes as one blob.
func (s *Store) WriteWhole(ctx context.Context, name string, all []json.RawMessage) error {
	l := (&List{}).copied()
	l.tail = all
	if Size(all) > maxTail {
		l.tail = nil
		over, offset := int64(len(s.seal(name, "", nil))), int64(0)
		for _, items := range pack(all) {
			p := l.pieceOf(items)
			p.offset, p.sealed = offset, over+encodedSize(items)
			offset += p.sealed
			l.pieces = append(l.pieces, p)
		}
	}
	return s.writeIndex(ctx, name, l, l.pieces)
}

func encodedSize(items []json.RawMessage) int64 {
	n := len(binary.AppendUvarint(nil, uint64(len(items))))
	for _, item := range items {
		n += len(binary.AppendUvarint(nil, uint64(len(item)))) + len(item)
	}
	return int64(n)
}

// writeIndex writes an index, and pieces behind it, one after the other.
func (s *Store) writeIndex(ctx context.Context, name string, l *List, pieces []piece) error {
	sealed := s.seal(name, indexField, l.encode())
	if len(sealed) > maxIndex {
		return fmt.Errorf("store %s: its index has %d bytes", name, len(sealed))
	}
	text := make([]byte, header, header+len(sealed))
	binary.BigEndian.PutUint32(text, uint32(len(sealed))) //nolint:gosec // it is at most maxIndex
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	w, err := s.Bucket.NewWriter(ctx, name, options())
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	_, err = w.Write(append(text, sealed...))
	for i := range pieces {
		if err != nil {
			break
		}
		_, _, field := s.place(l, &pieces[i])
		_, err = w.Write(s.seal(name, field, appendItems(nil, pieces[i].items)))
	}
	if err != nil {
		giveUp()
		_ = w.Close() // it says that it was given up
		return fmt.Errorf("store %s: %w", name, err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}

func (s *Store) write(ctx context.Context, name string, sealed []byte) error {
	if err := s.Bucket.WriteAll(ctx, name, sealed, options()); err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}

// options bounds what a writer buffers for an object store.
func options() *blob.WriterOptions {
	return &blob.WriterOptions{ContentType: "application/octet-stream", DisableContentTypeDetection: true,
		BufferSize: 5 << 20, MaxConcurrency: 1}
}
