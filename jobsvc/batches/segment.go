package batches

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/internal/blobstore"
)

// A segment is a blob of answers. Its first line names its format and the segment before it ("-": none); each further
// one is an answer: O for the output file or E for the error file, the number of the line, and the line of that file.
//
//	modelgate-segment-1 0000000000000a1f-00000003
//	O 17 {"id":"batch_req_...","custom_id":"a",...}
const segmentFormat = "modelgate-segment-1"

const none = "-"

// errBroken means that what was answered before is gone, or is not what it was.
var errBroken = errors.New("answers of the batch are missing")

func segmentName(epoch int64, seq int) string { return fmt.Sprintf("%016x-%08d", epoch, seq) }

// segmentsRoot is the folder of all segments. Below, each batch has one of its own.
const segmentsRoot = "batches/"

func segmentsOf(batch string) string           { return segmentsRoot + batch + "/" }
func segmentBlob(batch, segment string) string { return segmentsOf(batch) + segment }

// writeBlob writes a blob that consists of parts. If it fails, there is none.
func writeBlob(ctx context.Context, bucket *blob.Bucket, name string, parts ...[]byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := bucket.NewWriter(ctx, name, &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	for _, part := range parts {
		if _, err = w.Write(part); err != nil {
			cancel()
			break
		}
	}
	if err = cmp.Or(err, w.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func appendHeader(dst []byte, previous string) []byte {
	if previous == "" {
		previous = none
	}
	dst = append(append(dst, segmentFormat...), ' ')
	return append(append(dst, previous...), '\n')
}

// chain returns the names of the segments that lead to head, oldest first. The error is errBroken if one is gone.
func chain(ctx context.Context, bucket *blob.Bucket, batch, head string) ([]string, error) {
	var names []string
	for name := head; name != ""; {
		if names = append(names, name); len(names) > maxLines {
			return nil, fmt.Errorf("the chain of segments has no end: %w", errBroken)
		}
		previous, err := previousOf(ctx, bucket, batch, name)
		if err != nil {
			return nil, err
		}
		name = previous
	}
	slices.Reverse(names)
	return names, nil
}

func previousOf(ctx context.Context, bucket *blob.Bucket, batch, name string) (string, error) {
	r, err := bucket.NewRangeReader(ctx, segmentBlob(batch, name), 0, 128, nil)
	if err != nil {
		return "", broken(name, err)
	}
	defer func() { _ = r.Close() }() // it was only read
	return readHeader(bufio.NewReader(r), name)
}

func readHeader(r *bufio.Reader, name string) (string, error) {
	first, err := r.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", broken(name, err)
	}
	var format, previous string
	if n, _ := fmt.Sscanf(first, "%s %s\n", &format, &previous); n != 2 || format != segmentFormat {
		return "", fmt.Errorf("segment %s: its beginning is none: %w", name, errBroken)
	}
	if previous == none {
		return "", nil
	}
	return previous, nil
}

func broken(name string, err error) error {
	if blobstore.IsMissing(err) {
		return fmt.Errorf("segment %s is gone: %w", name, errBroken)
	}
	return fmt.Errorf("segment %s: %w", name, err)
}

// readSegment gives each answer of a segment to take, which must not keep it.
func readSegment(ctx context.Context, bucket *blob.Bucket, batch, name string,
	take func(kind byte, line int, answer []byte) error) error {
	r, err := bucket.NewReader(ctx, segmentBlob(batch, name), nil)
	if err != nil {
		return broken(name, err)
	}
	defer func() { _ = r.Close() }() // it was only read
	buffered := bufio.NewReaderSize(r, readBuffer)
	if _, err := readHeader(buffered, name); err != nil {
		return err
	}
	var long []byte
	room := roomIn(ctx)
	defer room.free()
	for {
		piece, err := buffered.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if err := room.grow(len(long) + len(piece)); err != nil {
				return err
			}
			long = append(long, piece...)
			continue
		case errors.Is(err, io.EOF) && len(piece) == 0 && len(long) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("segment %s is cut off: %w", name, errBroken)
		case err != nil:
			return broken(name, err)
		}
		if len(long) > 0 {
			long = append(long, piece...)
			piece = long
		}
		kind, line, answer, ok := splitAnswer(piece)
		if !ok {
			return fmt.Errorf("segment %s holds what is no answer: %w", name, errBroken)
		}
		if err := take(kind, line, answer); err != nil {
			return err
		}
		long = long[:0]
		if cap(long) > longLine {
			long = nil
		}
		room.free()
	}
}

// splitAnswer reads a line of a segment. The answer has its end mark.
func splitAnswer(text []byte) (kind byte, line int, answer []byte, ok bool) {
	head, _, ok := bytes.Cut(text, []byte(" {"))
	if !ok || len(head) < 3 || head[1] != ' ' || head[0] != kindOutput && head[0] != kindError {
		return 0, 0, nil, false
	}
	line, err := strconv.Atoi(string(head[2:]))
	return head[0], line, text[len(head)+1:], err == nil && line > 0
}

// A set holds numbers of lines.
type set struct {
	words []uint64
	n     int
}

// add reports whether n was not in the set yet.
func (s *set) add(n int) bool {
	i, bit := n/64, uint64(1)<<(n%64)
	if i >= len(s.words) {
		s.words = append(s.words, make([]uint64, i+1-len(s.words))...)
	}
	if s.words[i]&bit != 0 {
		return false
	}
	s.words[i] |= bit
	s.n++
	return true
}

func (s *set) has(n int) bool { i := n / 64; return i < len(s.words) && s.words[i]&(1<<(n%64)) != 0 }
