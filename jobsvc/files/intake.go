package files

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	// around is how much larger a body may be than the content in it: names, boundaries, other fields.
	around = 1 << 20
	// maxField is the length of the longest field, and of the longest filename.
	maxField = 1024
	// buffer is the number of bytes that are read from the client and written to the store at once.
	buffer = 128 << 10
)

// An intake is a multipart body as far as it has come: small fields, and one part whose content goes straight into a
// blob.
type intake struct {
	content string   // the name of the part that has the content
	known   []string // the names of all others
	// check refuses what cannot become right any more, and says by limit how large the content may be. It is called
	// before anything has come, after each field, when the content begins, and at the end.
	check func(*intake) error
	hash  hash.Hash // of the content; nil if nobody asks
	// reserve has so many bytes of content count, before they are written; it is called again with more as they come.
	reserve func(total int64) error

	fields   map[string]string
	filename string // as the client gave it
	began    bool   // the content has begun to come
	bytes    int64  // of the content, so far
	limit    int64  // of bytes
	reserved int64  // of bytes
	around   int64  // what has come besides the content, at least
	most     int64  // bytes that the content can have by the announced length of the body
	whole    bool   // all has come
}

// sum is the SHA-256 of the content.
func (in *intake) sum() string {
	if in.hash == nil {
		return ""
	}
	return hex.EncodeToString(in.hash.Sum(nil))
}

// idempotent has the content hashed for a request that may come again, whose fingerprint it is part of.
func (in *intake) idempotent(r *http.Request) {
	if r.Header.Get("Idempotency-Key") != "" {
		in.hash = sha256.New()
	}
}

// admit refuses a request whose body would come to nothing, before any of it is read: there is no room for what fill
// counts, which has a content of so many bytes at least. One that comes again needs none if it was answered.
func (s *Service) admit(r *http.Request, c rest.Caller, fill func(t *store.Txn, bytes int64)) error {
	same, err := rest.Idempotency(r, c)
	if err != nil {
		return err
	}
	if known, err := s.Store.Known(r.Context(), same); known || err != nil {
		return err
	}
	t := s.Store.BeginCreation()
	t.Within(c.Bounds)
	fill(t, max(0, r.ContentLength-around))
	t.Remember(same, nil, s.Now())
	return t.Fits(r.Context())
}

// receive reads the body of a request, and writes its content to a blob, which is there only if all was right.
func (s *Service) receive(r *http.Request, name string, in *intake) error {
	form, boundary, err := multipartOf(r)
	if err != nil {
		return err
	}
	in.fields = map[string]string{}
	if err := in.check(in); err != nil {
		return err
	}
	ctx, giveUp := context.WithCancel(r.Context())
	defer giveUp()
	var w *blob.Writer
	defer func() {
		if w != nil {
			giveUp()
			_ = w.Close() // it says that it was given up
		}
	}()
	for {
		part, err := form.NextPart()
		if err == io.EOF { //nolint:errorlint // a form that ends too early is another error, which wraps this one
			break
		}
		if err != nil {
			return incomplete()
		}
		in.around += aroundPart(part, boundary)
		if part.FormName() != in.content {
			err = in.field(part)
		} else if err = in.begin(part, r.ContentLength, int64(len(boundary))); err == nil {
			if err = s.hold(ctx, in); err == nil {
				w, err = s.writer(ctx, name)
			}
			if err == nil {
				err = in.copy(w, part)
			}
		}
		if err != nil {
			return err
		}
	}
	in.whole = true
	if err := in.check(in); err != nil {
		return err
	}
	finished := w
	w = nil
	return finished.Close()
}

// writerPart is how much a writer gives an object store at once, and writers how many such parts are on their way.
const (
	writerPart = 5 << 20
	writers    = 2
)

// writer returns a writer of a blob. What it buffers for an object store is bounded.
func (s *Service) writer(ctx context.Context, name string) (*blob.Writer, error) {
	return s.Bucket.NewWriter(ctx, name, &blob.WriterOptions{ContentType: "application/octet-stream",
		BufferSize: writerPart, MaxConcurrency: writers})
}

// hold takes memory for a writer's buffer. A folder's writer buffers nothing.
func (s *Service) hold(ctx context.Context, in *intake) error {
	size := int64(2 * buffer)
	if !blobstore.IsFolder(s.Bucket) {
		size += min(in.most, (writers+1)*writerPart)
	}
	return memory.Of(ctx).Take(ctx, size)
}

// aroundPart returns the least number of bytes around a part's content.
func aroundPart(part *multipart.Part, boundary string) int64 {
	n := len(boundary) + len("--\r\n\r\n\r\n")
	for name, values := range part.Header {
		for _, v := range values {
			n += len(name) + len(v) + len(": \r\n")
		}
	}
	return int64(n)
}

const typeForm = "multipart/form-data"

func multipartOf(r *http.Request) (form *multipart.Reader, boundary string, err error) {
	contentType := r.Header.Get("Content-Type")
	t, params, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil && strings.HasPrefix(strings.ToLower(contentType), typeForm), err == nil && t == typeForm &&
		params["boundary"] == "":
		return nil, "", openai.InvalidForm("its content-type has no boundary of 1 to 70 characters")
	case t != typeForm:
		return nil, "", openai.UnsupportedContentType(telemetry.Clip(contentType), typeForm)
	}
	return multipart.NewReader(bufio.NewReaderSize(r.Body, buffer), params["boundary"]), params["boundary"], nil
}

func (in *intake) field(part *multipart.Part) error {
	name := part.FormName()
	if !slices.Contains(in.known, name) {
		return openai.CodeUnknownParameter.On(shortened(name), "Unknown parameter: '%s'.", shortened(name))
	}
	if _, twice := in.fields[name]; twice {
		return openai.CodeDuplicateParameter.On(name, "The parameter '%s' was sent more than once.", name)
	}
	value, err := io.ReadAll(io.LimitReader(part, maxField+1))
	if err != nil {
		return incomplete()
	}
	if len(value) > maxField {
		return openai.CodeStringAboveMaxLength.On(name, "Invalid '%s': it must not be longer than %d bytes.",
			name, maxField)
	}
	in.fields[name] = string(value)
	in.around += int64(len(value))
	return in.check(in)
}

func shortened(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "..."
	}
	return s
}

// begin learns what the content is called. Part.FileName would give the last element of a path only.
func (in *intake) begin(part *multipart.Part, length, boundary int64) error {
	if in.began {
		return openai.CodeDuplicateParameter.On(in.content,
			"The parameter '%s' was sent more than once. Send one file in a request.", in.content)
	}
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return openai.CodeInvalidValue.On(in.content,
			"The header Content-Disposition of '%s' cannot be read.", in.content)
	}
	in.filename = strings.ToValidUTF8(params["filename"], "\uFFFD")
	in.began = true
	if len(in.filename) > maxField {
		return openai.CodeStringAboveMaxLength.On(in.content,
			"Invalid filename: it must not be longer than %d bytes.", maxField)
	}
	if err := in.check(in); err != nil {
		return err
	}
	if length > in.limit+around {
		return tooLarge(in.content, in.limit)
	}
	if length < 0 {
		in.most = in.limit
		return in.take(firstStep)
	}
	in.most = min(in.limit, length-in.around-boundary-int64(len("----")))
	return in.take(in.most - int64(len("\r\n"))) // which most send after the last boundary
}

// firstStep is the first reservation for content whose length is not announced; each step doubles it.
const firstStep = 1 << 20

// take reserves so many bytes, or as many as can come.
func (in *intake) take(bytes int64) error {
	bytes = min(bytes, in.most)
	if bytes <= in.reserved {
		return nil
	}
	err := in.reserve(bytes)
	if err == nil {
		in.reserved = bytes
	}
	return err
}

// copy writes the content. Its errors distinguish the client's from the store's.
func (in *intake) copy(w io.Writer, part io.Reader) error {
	from := &source{in: in, from: part}
	to := bufio.NewWriterSize(struct{ io.Writer }{w}, buffer)
	_, err := to.ReadFrom(from)
	if from.err != nil {
		return from.err
	}
	if err == nil {
		err = to.Flush()
	}
	if err != nil {
		return fmt.Errorf("write content: %w", err)
	}
	return nil
}

// A source counts and hashes what it reads.
type source struct {
	in   *intake
	from io.Reader
	err  error // for the client
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	s.in.bytes += int64(n)
	if s.in.hash != nil {
		s.in.hash.Write(p[:n])
	}
	switch {
	case s.in.bytes > s.in.limit:
		s.err = tooLarge(s.in.content, s.in.limit)
	case err != nil && !errors.Is(err, io.EOF):
		s.err = incomplete()
	case s.in.bytes > s.in.reserved:
		if s.err = s.in.take(2 * s.in.bytes); s.err == nil {
			return n, err
		}
	default:
		return n, err
	}
	return n, s.err
}

func incomplete() error {
	return openai.InvalidForm("it ends before its last boundary")
}

func tooLarge(param string, limit int64) error {
	return openai.CodeFileTooLarge.On(param, "The content of '%s' is too large: at most %d bytes (%d MB) are allowed here.", param, limit,
		limit>>20).WithStatus(http.StatusRequestEntityTooLarge)
}
