package batches

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/jobsvc/files"
)

const (
	maxLine    = 32 << 20 // of a line, in bytes
	readBuffer = 128 << 10
)

// errLong means that a line has more than maxLine bytes. The reader has stepped over it.
var errLong = errors.New("the line is too long")

// byteOrderMark is tolerated at the beginning of a file: editors on Windows put it there.
var byteOrderMark = []byte("\xef\xbb\xbf")

// An input is the input file of a batch. It is immutable.
type input struct {
	bucket   *blob.Bucket
	file     string // its id
	endpoint string
}

func (w *work) input() input {
	return input{bucket: w.s.Bucket, file: w.rec.Value.InputFile, endpoint: w.rec.Value.Endpoint}
}

// open reads the input from an offset on. The error is files.ErrMissing if it is gone.
func (i input) open(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return files.Open(ctx, i.bucket, i.file, offset)
}

// each gives each line that is not done to take. The request is valid until take returns. The error is
// files.ErrMissing also if the input is not what was validated.
func (i input) each(ctx context.Context, done *set, take func(line int, r request) error) error {
	r, err := i.open(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	p := parser{endpoint: i.endpoint}
	for l := newLines(r, roomIn(ctx)); ; {
		text, err := l.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return missing(err)
		}
		if done.has(l.number) {
			continue
		}
		q, err := p.valid(text, l.number)
		if err != nil {
			return err
		}
		if err := take(l.number, q); err != nil {
			return err
		}
	}
}

// missing makes the error of reading a blob that has gone while it was read one that says so.
func missing(err error) error {
	if blobstore.IsMissing(err) {
		return fmt.Errorf("%w: %w", files.ErrMissing, err)
	}
	return err
}

// lines reads the lines of a file that are not blank. Lines end in \n or \r\n, the last one also with the file.
type lines struct {
	r      *bufio.Reader
	number int   // of the line that was read last, counted from 1, the blank ones included
	begin  int64 // where that line begins in the file
	end    int64 // its end, including its end mark
	long   []byte
	room   longRoom
}

func newLines(r io.Reader, room longRoom) *lines {
	return &lines{r: bufio.NewReaderSize(r, readBuffer), room: room}
}

// at begins in the middle of a file: with the line of a number, at its offset.
func (l *lines) at(number int, offset int64) *lines {
	l.number, l.end = number-1, offset
	return l
}

// next returns the next line, without its end. It is valid until the next call. The error is io.EOF after the last
// line, errLong for one line, or the reader's.
func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.read()
		if err != nil {
			return nil, err
		}
		if l.begin == 0 {
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		if line = bytes.Trim(line, " \t\r\n"); len(line) > 0 {
			return line, nil
		}
	}
}

// read returns a line with its end.
func (l *lines) read() ([]byte, error) {
	l.number++
	l.begin = l.end
	l.long = l.long[:0]
	if cap(l.long) > longLine {
		l.long = nil // one long line is no reason to keep its memory
	}
	l.room.free()
	long := false
	for {
		piece, err := l.r.ReadSlice('\n')
		l.end += int64(len(piece))
		switch {
		case err == nil || errors.Is(err, io.EOF) && l.end > l.begin:
			if long = long || len(l.long)+len(piece) > maxLine+len("\r\n"); long {
				return nil, errLong
			}
			if len(l.long) == 0 {
				return piece, nil
			}
			l.long = append(l.long, piece...)
			return l.long, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(l.long)+len(piece) > maxLine+len("\r\n"):
			long, l.long = true, l.long[:0]
		case !long:
			if err := l.room.grow(len(l.long) + len(piece)); err != nil {
				return nil, err
			}
			l.long = append(l.long, piece...)
		}
	}
}
