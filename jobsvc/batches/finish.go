package batches

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// life is for how long the files of a batch are kept if it does not say.
const life = 30 * 24 * time.Hour

func newFileID() string { return files.Kind.NewID() }

// ends are the events that end a batch.
var ends = map[reason]job.BatchEvent{
	drained: job.BatchFinished, cancelled: job.BatchStopped, expired: job.BatchTimeout, lost: job.BatchLost,
}

// finish writes the files of a batch that is closed, and ends it. It can be repeated, and then writes the same.
func (w *work) finish(ctx context.Context) error {
	written, err := w.writeFiles(ctx)
	switch {
	case errors.Is(err, errBroken):
		// A part of the answers would look like all of them. New ids distinguish it from another writer's, if there
		// is one.
		written = &filesWritten{}
		if err := w.close(ctx, lost, answersGone); err != nil {
			return err
		}
	case errors.Is(err, files.ErrMissing):
		return w.close(ctx, lost, inputGone)
	case err != nil:
		return err
	}
	return w.change(ctx, func(b *Batch, t *store.Txn) error {
		b.OutputFile, b.ErrorFile = "", ""
		if n := written.output.size; n > 0 {
			b.OutputFile = b.Closing.Output
			w.addFile(t, b, b.OutputFile, "output", n)
		}
		if n := written.errors.size; n > 0 {
			b.ErrorFile = b.Closing.Error
			w.addFile(t, b, b.ErrorFile, "error", n)
		}
		return w.end(b, t, ends[b.Closing.Reason])
	})
}

func (w *work) addFile(t *store.Txn, b *Batch, id, what string, size int64) {
	now := w.s.Now()
	expires := now.Add(life)
	if b.OutputLife > 0 {
		expires = now.Add(time.Duration(b.OutputLife) * time.Second)
	}
	files.Add(t, &store.Record[files.File]{Tenant: w.rec.Tenant, ID: id, Value: files.File{
		Key:      b.Key,
		Filename: w.rec.ID + "_" + what + ".jsonl", Purpose: files.PurposeBatchOutput, Bytes: size,
		CreatedAt: now.Unix(), ExpiresAt: expires.Unix(),
	}})
}

// filesWritten are the files of a batch.
type filesWritten struct{ output, errors file }

// writeFiles writes the blobs of the files. The error is errBroken if answers are gone, and files.ErrMissing if
// the input is, whose other lines should be in the error file.
func (w *work) writeFiles(ctx context.Context) (_ *filesWritten, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &w.rec.Value
	out := &filesWritten{output: w.newFile(b.Closing.Output), errors: w.newFile(b.Closing.Error)}
	defer func() {
		if err != nil {
			cancel() // so that the blobs are given up
			out.output.abandon()
			out.errors.abandon()
		}
	}()
	done := &set{}
	var counts Counts
	err = w.eachAnswer(ctx, func(kind byte, line int, answer []byte) error {
		if !done.add(line) {
			return fmt.Errorf("line %d was answered twice: %w", line, errBroken)
		}
		if kind == kindOutput {
			counts.Completed++
			return out.output.write(ctx, answer)
		}
		counts.Failed++
		return out.errors.write(ctx, answer)
	})
	if err != nil {
		return nil, err
	}
	if counts.Completed != b.Counts.Completed || counts.Failed != b.Counts.Failed {
		return nil, fmt.Errorf("%d answers of %d: %w", done.n, b.Counts.Completed+b.Counts.Failed, errBroken)
	}
	if b.InProgressAt != 0 && (b.Closing.Reason == cancelled || b.Closing.Reason == expired) {
		if err := w.writeLeft(ctx, &out.errors, done); err != nil {
			return nil, err
		}
	}
	return out, errors.Join(out.output.close(), out.errors.close())
}

// writeLeft writes a line for each line of the input that has no answer.
func (w *work) writeLeft(ctx context.Context, to *file, done *set) error {
	why := answer{code: openai.CodeBatchExpired,
		message: "This request could not be executed before the completion window expired."}
	if w.rec.Value.Closing.Reason == cancelled {
		why = answer{code: openai.CodeBatchCancelled, message: "This request was cancelled before it could be executed."}
	}
	names := w.names()
	var text []byte
	return w.input().each(ctx, done, func(line int, r request) error {
		text = append(names.appendLine(text[:0], line, r.customID, &why), '\n')
		return to.write(ctx, text)
	})
}

// A file is a blob that is made with its first line: one without lines is none.
type file struct {
	bucket   *blob.Bucket
	id       string
	size     int64
	blob     *blob.Writer
	buffered *bufio.Writer
}

func (w *work) newFile(id string) file { return file{bucket: w.s.Bucket, id: id} }

func (f *file) write(ctx context.Context, line []byte) error {
	if f.blob == nil {
		w, err := f.bucket.NewWriter(ctx, files.BlobOf(f.id), &blob.WriterOptions{ContentType: "application/octet-stream"})
		if err != nil {
			return fmt.Errorf("write %s: %w", f.id, err)
		}
		f.blob, f.buffered = w, bufio.NewWriterSize(w, readBuffer)
	}
	n, err := f.buffered.Write(line)
	f.size += int64(n)
	if err != nil {
		return fmt.Errorf("write %s: %w", f.id, err)
	}
	return nil
}

// close makes the blob be there.
func (f *file) close() error {
	if f.blob == nil {
		return nil
	}
	err := f.buffered.Flush()
	if err == nil {
		err = f.blob.Close()
		f.blob = nil
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.id, err)
	}
	return nil
}

// abandon gives up a blob whose context has ended.
func (f *file) abandon() {
	if f.blob != nil {
		_ = f.blob.Close() // it says that the context has ended
	}
}
