package tuning

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"path"
	"strings"

	"github.com/modelgate/modelgate/internal/provider"
)

// A Field is one of a form that is not a file.
type Field struct{ Name, Value string }

// Upload posts a form with the file as its last part, named file, and decodes the JSON that comes back into out. The
// file is streamed, and its length announced: not every vendor takes a body without one. A file that turns out to be
// of another size than it says is an error.
func Upload(ctx context.Context, c *provider.Client, to string, f provider.TrainingFile, out any,
	fields ...Field) error {
	var head bytes.Buffer
	form := multipart.NewWriter(&head)
	for _, field := range fields {
		if err := form.WriteField(field.Name, field.Value); err != nil {
			return fmt.Errorf("uploading a training file: %w", err)
		}
	}
	if _, err := form.CreateFormFile("file", FileName(f)); err != nil {
		return fmt.Errorf("uploading a training file: %w", err)
	}
	tail := strings.NewReader("\r\n--" + form.Boundary() + "--\r\n")
	content, err := f.Open(ctx)
	if err != nil {
		return fmt.Errorf("opening a training file: %w", err)
	}
	length := int64(head.Len()) + f.Size + tail.Size()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, nil)
	if err != nil {
		_ = content.Close() // the first error says more
		return fmt.Errorf("uploading a training file: %w", err)
	}
	// Whoever sends a request closes its body, also where it fails.
	r.Body, r.ContentLength = body{io.MultiReader(&head, content, tail), content}, length
	r.Header.Set("Content-Type", form.FormDataContentType())
	return c.Ask(r, out)
}

// body joins several readers. One of them has to be closed.
type body struct {
	io.Reader
	io.Closer
}

// FileName returns the name of a file, as one that every vendor takes for JSON lines.
func FileName(f provider.TrainingFile) string {
	name := path.Base("/" + strings.ReplaceAll(f.Name, `\`, "/"))
	if name == "/" {
		name = "training"
	}
	if !strings.HasSuffix(name, ".jsonl") {
		name += ".jsonl"
	}
	return name
}
