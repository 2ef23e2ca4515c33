package usage

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

// A segment is one file of a spool.
type segment struct {
	number uint64
	path   string
	salt   uint32
	size   int64
	file   *os.File // of the last segment, which is written
	mapped *mapping // of that file; may be nil
	dirty  bool
}

const segmentSuffix = ".spool"

func createSegment(dir string, number uint64, most int64) (*segment, error) {
	path := filepath.Join(dir, fmt.Sprintf("%016x", number)+segmentSuffix)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("making a segment of the spool: %w", err)
	}
	head := append([]byte(segmentMagic), make([]byte, 4)...)
	rand.Read(head[len(segmentMagic):]) // never fails
	if _, err := f.Write(head); err != nil {
		return nil, fmt.Errorf("making a segment of the spool: %w", errors.Join(err, f.Close(), os.Remove(path)))
	}
	salt, _ := readSalt(head)
	return &segment{number: number, path: path, salt: salt, size: int64(segmentHeader), file: f,
		mapped: newMapping(f, most), dirty: true}, nil
}

// put appends a frame to a file, which may grow to most. Bytes of a failed write are beyond size, and the next write
// replaces them.
func (g *segment) put(data []byte, most int64) error {
	if g.mapped != nil {
		if g.mapped.reserve(g.file, g.size+int64(len(data)), most) && g.mapped.write(data, g.size) {
			return nil
		}
		g.unmap() // a system call reports the error, or works
	}
	_, err := g.file.WriteAt(data, g.size)
	return err
}

// unmap releases reserved space that is not used. If that fails, the file ends with zeros, which are not frames.
func (g *segment) unmap() {
	if g.mapped != nil {
		_ = g.mapped.close()
		_ = g.file.Truncate(g.size)
		g.mapped = nil
	}
}

// OpenSpool opens the spool in a folder. It ships the records of a killed process: complete records unchanged, and
// records that only began with the outcome "interrupted". An incomplete record is ignored. The caller calls Run, and
// closes the spool after that.
func OpenSpool(o SpoolOptions) (*DiskSpool, error) {
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultMaxBytes)
	o.SegmentBytes = max(cmp.Or(o.SegmentBytes, defaultSegmentBytes), int64(segmentHeader+maxFrame))
	s := &DiskSpool{options: o, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), stop: make(chan struct{}),
		open: map[string]place{}, replayed: make(chan struct{})}
	var err error
	if s.metrics, err = newSpoolMetrics(o.Registerer, s.state); err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		s.metrics.unregister(o.Registerer)
		if errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR) {
			err = fmt.Errorf("%w: restore it from a copy, or move it away. It is then created again, but records in it that were not yet in the ledger are not charged", err)
		}
		return nil, fmt.Errorf("opening the spool of the ledger in %s: %w", o.Dir, err)
	}
	s.stopped.Go(s.keep)
	return s, nil
}

func (s *DiskSpool) load() (err error) {
	if err := os.MkdirAll(s.options.Dir, 0o700); err != nil {
		return err
	}
	if s.lock, err = os.OpenFile(filepath.Join(s.options.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.lock.Close()
			s.position.Close() // if it is nil, this only returns an error
		}
	}()
	if err := lockFile(s.lock); err != nil {
		return fmt.Errorf("another process uses it: %w", err)
	}
	if s.position, err = os.OpenFile(filepath.Join(s.options.Dir, "position"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	s.shipped = readPosition(s.position)
	interrupted, err := s.scan()
	if err != nil {
		return err
	}
	for _, r := range interrupted {
		r.Outcome = "interrupted"
		s.append(kindEnd, r)
	}
	if last := s.last(); last != nil {
		s.replay = place{last.number, last.size}
	} else if n := len(s.segments); n > 0 {
		s.replay = place{s.segments[n-1].number, s.segments[n-1].size}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checkReplayed()
	return nil
}

// scan reads the folder, and returns the records that began and have not ended.
func (s *DiskSpool) scan() ([]*ledgerv1.Record, error) {
	entries, err := os.ReadDir(s.options.Dir)
	if err != nil {
		return nil, err
	}
	begun := map[string]*ledgerv1.Record{}
	for _, e := range entries {
		name, isSegment := strings.CutSuffix(e.Name(), segmentSuffix)
		number, err := strconv.ParseUint(name, 16, 64)
		if !isSegment || err != nil {
			continue
		}
		path := filepath.Join(s.options.Dir, e.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		salt, ok := readSalt(data)
		if !ok {
			if err := s.setAside(path, len(bytes.TrimRight(data, "\x00"))); err != nil {
				return nil, err
			}
			continue
		}
		g := &segment{number: number, path: path, salt: salt, size: int64(len(data))}
		s.segments = append(s.segments, g)
		s.bytes += g.size
		s.scanSegment(g, data, begun)
	}
	slices.SortFunc(s.segments, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	all := make([]*ledgerv1.Record, 0, len(begun))
	for _, r := range begun {
		all = append(all, r)
	}
	return all, nil
}

// setAside renames a file without a header. A short one is from a process that ended, or a disk that was full, before
// the segment had any frame.
func (s *DiskSpool) setAside(path string, size int) error {
	if size <= segmentHeader {
		return os.Remove(path)
	}
	s.options.Log.Error("a segment of the spool has no header, and is kept aside", zap.String("path", path),
		zap.Int("bytes", size))
	return os.Rename(path, path+".unreadable")
}

// scanSegment reads the frames of a segment. Segments are scanned in order, because ReadDir sorts names of equal
// length.
func (s *DiskSpool) scanSegment(g *segment, data []byte, begun map[string]*ledgerv1.Record) {
	skipped := 0
	for at := segmentHeader; at < len(data); {
		f, n := readFrame(g.salt, data[at:], true)
		here := place{g.number, int64(at)}
		at += n
		if f.payload == nil {
			skipped += len(bytes.TrimRight(data[at-n:at], "\x00")) // zeros were reserved, and not written
			continue
		}
		backlog := s.backlog
		id := f.id()
		exchange := ""
		if f.kind == kindEnd {
			exchange = f.exchange()
		}
		s.note(f.kind, id, exchange, here)
		if here.before(s.shipped) {
			s.backlog = backlog
		}
		if f.kind == kindEnd {
			delete(begun, id)
			delete(begun, exchange)
			continue
		}
		r := &ledgerv1.Record{}
		if err := proto.Unmarshal(f.payload, r); err == nil {
			begun[id] = r
		}
	}
	if skipped > 0 {
		s.options.Log.Warn("a segment of the spool has a damaged or unfinished record", zap.String("path", g.path),
			zap.Int("bytes", skipped))
	}
}

func (p place) before(q place) bool {
	return p.segment < q.segment || p.segment == q.segment && p.offset < q.offset
}

// positionSize is the size of the file with the acknowledged position: a segment, an offset, a checksum.
const positionSize = 20

// readPosition returns the acknowledged position, or the beginning if it cannot be read.
func readPosition(r io.ReaderAt) place {
	var b [positionSize]byte
	if _, err := r.ReadAt(b[:], 0); err != nil || checksum(0, b[:16]) != binary.LittleEndian.Uint32(b[16:]) {
		return place{}
	}
	return place{binary.LittleEndian.Uint64(b[:]), int64(binary.LittleEndian.Uint64(b[8:]))}
}

func writePosition(w io.WriterAt, p place) error {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, positionSize), p.segment)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.offset))
	b = binary.LittleEndian.AppendUint32(b, checksum(0, b))
	if _, err := w.WriteAt(b, 0); err != nil {
		return fmt.Errorf("noting what the ledger has acknowledged: %w", err)
	}
	return nil
}

// forgetShipped removes segments that are completely acknowledged from the spool. Records that began in them and have
// not ended are written again at the end, so that one long exchange does not keep all segments. It returns the files,
// which the caller removes without the lock.
func (s *DiskSpool) forgetShipped() (paths []string) {
	if last := s.last(); last != nil && len(s.waiting) > 0 && s.shippedAll(last) {
		s.retire(last) // its space is needed
	}
	for _, g := range slices.Clone(s.segments) {
		if g.file != nil || !s.shippedAll(g) {
			continue
		}
		if err := s.carry(g); err != nil {
			continue // the disk is full; the next removal makes room
		}
		paths = append(paths, g.path)
		s.bytes -= g.size
		s.segments = slices.DeleteFunc(s.segments, func(other *segment) bool { return other == g })
	}
	return paths
}

// shippedAll reports whether a segment is completely acknowledged.
func (s *DiskSpool) shippedAll(g *segment) bool {
	return g.number < s.shipped.segment || g.number == s.shipped.segment && s.shipped.offset >= g.size
}

// tidy removes files that are not needed any more.
func (s *DiskSpool) tidy() {
	s.mu.Lock()
	paths := s.forgetShipped()
	s.mu.Unlock()
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			s.options.Log.Warn("removing a segment of the spool", zap.Error(err))
		}
	}
}

// carry appends the records that began in a segment and have not ended to the last segment.
func (s *DiskSpool) carry(g *segment) error {
	var offsets []int64
	for _, at := range s.open {
		if at.segment == g.number {
			offsets = append(offsets, at.offset)
		}
	}
	if len(offsets) == 0 {
		return nil
	}
	f, err := os.Open(g.path)
	if err != nil {
		return fmt.Errorf("reading a segment of the spool: %w", err)
	}
	defer f.Close()
	slices.Sort(offsets)
	for _, at := range offsets {
		data := make([]byte, min(maxFrame, g.size-at))
		if _, err := f.ReadAt(data, at); err != nil {
			return fmt.Errorf("reading a segment of the spool: %w", err)
		}
		read, n := readFrame(g.salt, data, true)
		if read.payload == nil {
			continue // the disk has lost it
		}
		// The bound must not prevent the removal of a segment.
		if err := s.write(data[:n], read.id(), read.exchange(), math.MaxInt64); err != nil {
			return err
		}
	}
	return nil
}
