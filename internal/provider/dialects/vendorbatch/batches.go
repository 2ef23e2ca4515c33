package vendorbatch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// OpenAI serves batches at a vendor with OpenAI's batch API: a file of lines goes up, and files with the answers
// come down. It implements provider.Batcher.
type OpenAI struct {
	Codecs Codecs
	// Locate, unless it is nil, returns the vendor's path for OpenAI's path, and its query.
	Locate func(c *configv1.Provider, path string) (string, url.Values, error)
	// Endpoint, unless it is nil, returns the vendor's name of OpenAI's endpoint.
	Endpoint func(endpoint string) string
	// MaxLines and MaxBytes are the most that the vendor takes in one batch.
	MaxLines int
	MaxBytes int64
	// DecodeError is the vendor's.
	DecodeError func(status int, header http.Header, body []byte) *openai.Error
}

const (
	// metadata is the member of a batch's metadata that holds the gateway's id of it.
	metadata = "modelgate_batch"
	// kept is for how long the vendor keeps the files, in seconds: 14 days, the least that Azure takes.
	kept = 1209600
	// nothing is the id of a batch without a line that the vendor could be asked. The vendor has no such batch.
	nothing = "none"
)

// Submit implements provider.Batcher. A batch that was created unheard is known by its metadata. One that the vendor
// lists late, or whose request is still under way, is not seen, and then runs twice; the files of an upload that came
// to nothing are deleted by the vendor in time.
func (x *OpenAI) Submit(ctx context.Context, c *provider.Client, b provider.Batch) (string, error) {
	lines, err := x.Codecs.Lines(b)
	if err != nil {
		return "", err
	}
	count, size := 0, int64(0)
	err = x.write(ctx, lines, func(line []byte) error {
		count++
		size += int64(len(line))
		return nil
	})
	if err == nil {
		err = x.Codecs.Fit(count, size, x.MaxLines, x.MaxBytes)
	}
	switch {
	case err != nil:
		return "", err
	case count == 0:
		return nothing, nil
	}
	if b.Again {
		if id, err := x.find(ctx, c, b); err != nil || id != "" {
			return id, err
		}
	}
	file, err := x.upload(ctx, c, lines)
	if err != nil {
		return "", err
	}
	path, err := x.at(c, "/batches", nil)
	if err != nil {
		return "", err
	}
	var created struct{ ID string }
	err = c.JSON(ctx, http.MethodPost, path, map[string]any{
		"input_file_id": file, "endpoint": x.endpoint(b.Endpoint), "completion_window": "24h",
		"metadata":             map[string]string{metadata: b.ID},
		"output_expires_after": map[string]any{"anchor": "created_at", "seconds": kept},
	}, &created)
	if err == nil && created.ID == "" {
		err = fmt.Errorf("create a batch: %w: it has no id", provider.ErrNotAnAnswer)
	}
	return created.ID, err
}

// at returns the path and query for OpenAI's path. More is OpenAI's query, or nil.
func (x *OpenAI) at(c *provider.Client, path string, more url.Values) (string, error) {
	query := url.Values{}
	if x.Locate != nil {
		var err error
		if path, query, err = x.Locate(c.Config, path); err != nil {
			return "", err
		}
	}
	maps.Copy(query, more)
	if len(query) == 0 {
		return path, nil
	}
	return path + "?" + query.Encode(), nil
}

func (x *OpenAI) endpoint(openAI string) string {
	if x.Endpoint == nil {
		return openAI
	}
	return x.Endpoint(openAI)
}

// write gives the lines of the vendor's file to take.
func (x *OpenAI) write(ctx context.Context, lines *Lines, take func(line []byte) error) error {
	endpoint := x.endpoint(lines.batch.Endpoint)
	var text []byte
	return lines.Each(ctx, func(l Line) error {
		text = append(openai.AppendString(append(text[:0], `{"custom_id":`...), lines.ID(l.Number)),
			`,"method":"POST","url":`...)
		text = append(append(openai.AppendString(text, endpoint), `,"body":`...), oneLine(l.Request.Body)...)
		text = append(text, "}\n"...)
		return take(text)
	}, nil)
}

// oneLine returns JSON without line breaks, which can only stand between its tokens.
func oneLine(body []byte) []byte {
	if !slices.ContainsFunc(body, func(b byte) bool { return b == '\n' || b == '\r' }) {
		return body
	}
	return []byte(strings.NewReplacer("\n", " ", "\r", " ").Replace(string(body)))
}

// searchPages bounds the search for a batch: the vendor lists 100 on a page, and takes 2,000 an hour.
const searchPages = 1000

// slack is by how many seconds the vendor's clock may be behind.
const slack = 3600

// find returns the vendor's id of a batch, or "" if the vendor has not got it. One that the vendor refused is as if
// it was never there.
func (x *OpenAI) find(ctx context.Context, c *provider.Client, b provider.Batch) (string, error) {
	query := url.Values{"limit": {"100"}}
	for range searchPages {
		path, err := x.at(c, "/batches", query)
		if err != nil {
			return "", err
		}
		var page struct {
			Data    []vendorBatch `json:"data"`
			HasMore bool          `json:"has_more"`
		}
		if err := c.JSON(ctx, http.MethodGet, path, nil, &page); err != nil {
			return "", err
		}
		for _, found := range page.Data {
			if found.gateway() == b.ID && found.status() != "failed" {
				return found.ID, nil
			}
		}
		if !page.HasMore || len(page.Data) == 0 {
			return "", nil
		}
		// Newest first, as OpenAI lists them, what follows is older yet.
		first, last := page.Data[0], page.Data[len(page.Data)-1]
		if last.created() <= first.created() && first.created() > 0 && first.created() < b.Since-slack {
			return "", nil
		}
		query.Set("after", last.ID)
	}
	return "", fmt.Errorf("look for batch %s: the provider lists too many batches", b.ID)
}

// upload sends the lines to the vendor as a file, and waits until it can be used.
func (x *OpenAI) upload(ctx context.Context, c *provider.Client, lines *Lines) (string, error) {
	path, err := x.at(c, "/files", nil)
	if err != nil {
		return "", err
	}
	boundary := multipart.NewWriter(nil).Boundary()
	answer, err := Stream(ctx, c, path, "multipart/form-data; boundary="+boundary,
		func(ctx context.Context, w io.Writer) error {
			form := multipart.NewWriter(w)
			if err := form.SetBoundary(boundary); err != nil {
				return err
			}
			return x.fill(ctx, form, lines)
		})
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }() // what is wanted of it has been read
	var file vendorFile
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxLine)).Decode(&file); err != nil || file.ID == "" {
		return "", fmt.Errorf("upload: %w: it names no file", provider.ErrNotAnAnswer)
	}
	return file.ID, x.await(ctx, c, file)
}

// fill writes the form that an upload is.
func (x *OpenAI) fill(ctx context.Context, form *multipart.Writer, lines *Lines) error {
	for _, field := range [...][2]string{
		{"purpose", "batch"}, {"expires_after[anchor]", "created_at"}, {"expires_after[seconds]", strconv.Itoa(kept)},
	} {
		if err := form.WriteField(field[0], field[1]); err != nil {
			return err
		}
	}
	file, err := form.CreateFormFile("file", lines.batch.ID+".jsonl")
	if err != nil {
		return err
	}
	err = x.write(ctx, lines, func(line []byte) error {
		_, err := file.Write(line)
		return err
	})
	if err != nil {
		return err
	}
	return form.Close()
}

type vendorFile struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

// Pauses between looks at a file that the vendor has not processed yet, and for how long it is looked at.
const (
	minPause      = time.Second
	maxPause      = 30 * time.Second
	maxProcessing = 10 * time.Minute
)

// await waits until the vendor has processed a file, which OpenAI has at once. That a file was uploaded is all that
// some say.
func (x *OpenAI) await(ctx context.Context, c *provider.Client, file vendorFile) error {
	until := time.Now().Add(maxProcessing)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		switch status := strings.ToLower(file.Status); {
		case status == "" || status == "processed", status == "uploaded" && pause > 4*minPause:
			return nil
		case status == "error" || status == "failed":
			return openai.CodeInvalidFile.New("The provider '%s' could not process the batch's file.",
				x.Codecs.Vendor)
		case time.Now().After(until):
			return fmt.Errorf("the file %s is still %s at the provider", file.ID, status)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		path, err := x.at(c, "/files/"+url.PathEscape(file.ID), nil)
		if err == nil {
			err = c.JSON(ctx, http.MethodGet, path, nil, &file)
		}
		if err != nil {
			return err
		}
	}
}
