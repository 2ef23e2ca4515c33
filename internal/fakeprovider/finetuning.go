package fakeprovider

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"strconv"
	"time"

	"github.com/modelgate/modelgate/api/openai"
)

// Bounds of a form's members that are not the file, in bytes.
const maxField = 1 << 10

// serveUpload reads a training file and keeps nothing of it but its id.
func (s *server) serveUpload(w http.ResponseWriter, r *http.Request) *openai.Error {
	form, err := r.MultipartReader()
	if err != nil {
		return openai.Code("invalid_form").On("", "The request must be a form, as multipart/form-data.")
	}
	var t training
	var name, purpose string
	var size counter
	for found := false; ; {
		part, err := form.NextPart()
		switch {
		case errors.Is(err, io.EOF) && !found:
			return openai.Code("missing_required_parameter").On("file", "Missing required parameter: 'file'.")
		case errors.Is(err, io.EOF) && purpose != "fine-tune":
			return openai.Code("invalid_value").On("purpose", "Invalid value: '%s'. Supported values are: 'fine-tune'.",
				purpose)
		case errors.Is(err, io.EOF):
			t.Created, t.Nonce = s.now().UnixMilli(), nonce()
			writeJSON(w, map[string]any{"object": "file", "id": t.id(), "bytes": int64(size), "created_at": t.Created / 1000,
				"filename": name,
				"purpose":  purpose, "status": "processed", "status_details": nil})
			return nil
		case err != nil:
			return errForm()
		}
		switch part.FormName() {
		case "purpose":
			purpose, err = field(part)
		case "file":
			name, found = part.FileName(), true
			t, err = readTraining(io.TeeReader(part, &size))
		}
		if err != nil {
			return errForm()
		}
	}
}

func errForm() *openai.Error {
	return openai.Code("invalid_form").On("", "The form ended before it was complete.")
}

func field(part *multipart.Part) (string, error) {
	text, err := io.ReadAll(io.LimitReader(part, maxField))
	return string(text), err
}

// A counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// A setting is a hyperparameter: a number, or "auto".
type setting json.RawMessage

func (v *setting) UnmarshalJSON(text []byte) error {
	*v = append((*v)[:0], text...)
	return nil
}

// or returns the number, or n if there is none.
func (v setting) or(n int64) int64 {
	if number, err := strconv.ParseInt(string(v), 10, 64); err == nil && number > 0 {
		return min(number, 1000)
	}
	return n
}

// A createJob is the request for a job, as far as it matters here.
type createJob struct {
	Model           string          `json:"model"`
	TrainingFile    string          `json:"training_file"`
	ValidationFile  string          `json:"validation_file"`
	Suffix          string          `json:"suffix"`
	Seed            *int64          `json:"seed"`
	Hyperparameters hyperparameters `json:"hyperparameters"`
	Method          *struct {
		Type       string     `json:"type"`
		Supervised methodPart `json:"supervised"`
		DPO        methodPart `json:"dpo"`
	} `json:"method"`
}

type methodPart struct {
	Hyperparameters hyperparameters `json:"hyperparameters"`
}

type hyperparameters struct {
	Epochs    setting `json:"n_epochs"`
	BatchSize setting `json:"batch_size"`
}

func (s *server) serveCreate(w http.ResponseWriter, r *http.Request) *openai.Error {
	body, e := readBody(w, r)
	if e != nil {
		return e
	}
	var request createJob
	if err := json.Unmarshal(body, &request); err != nil {
		return openai.Code("invalid_json").On("", "The request could not be read: %s", err)
	}
	if request.Model == "" {
		return openai.Code("missing_required_parameter").On("model", "Missing required parameter: 'model'.")
	}
	j := job{Created: s.now().UnixMilli(), Model: request.Model, Suffix: request.Suffix, Method: "supervised",
		Validation: request.ValidationFile, Nonce: nonce()}
	settings := request.Hyperparameters
	if m := request.Method; m != nil {
		switch j.Method = m.Type; m.Type {
		case "supervised":
			settings = m.Supervised.Hyperparameters
		case kindPreference:
			settings = m.DPO.Hyperparameters
		default:
			return openai.Code("invalid_value").On("method.type", "Invalid value: '%s'. Supported values are: 'supervised' and 'dpo'.", m.Type)
		}
	}
	j.Epochs, j.BatchSize = settings.Epochs.or(3), settings.BatchSize.or(1)
	if j.Seed = rand.Int64N(1 << 31); request.Seed != nil {
		j.Seed = *request.Seed
	}
	var ok bool
	if j.file, ok = readFileID(request.TrainingFile); !ok {
		return errNoFile("training_file", request.TrainingFile)
	}
	if _, ok := readFileID(request.ValidationFile); request.ValidationFile != "" && !ok {
		return errNoFile("validation_file", request.ValidationFile)
	}
	s.memory.made(j.id())
	s.writeJob(w, &j)
	return nil
}

func errNoFile(param, id string) *openai.Error {
	return &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Param: param,
		Message: "No such File object: " + id}
}

func (s *server) moment(j *job) moment { return j.at(s.now(), s.memory.controlOf(j.id())) }

func (s *server) writeJob(w http.ResponseWriter, j *job) {
	m := s.moment(j)
	writeJSON(w, m.object())
}

// forJob makes a handler of a job from a handler of a request.
func (s *server) forJob(serve func(http.ResponseWriter, *http.Request, *job) *openai.Error) func(http.ResponseWriter,
	*http.Request) *openai.Error {
	return func(w http.ResponseWriter, r *http.Request) *openai.Error {
		id := pathPart(r, "jobs")
		j, ok := readJobID(prefixJob, id)
		if !ok {
			return errNoJob(id)
		}
		return serve(w, r, j)
	}
}

func (s *server) serveJob(w http.ResponseWriter, _ *http.Request, j *job) *openai.Error {
	s.writeJob(w, j)
	return nil
}

// serveJobs lists the jobs that are still remembered.
func (s *server) serveJobs(w http.ResponseWriter, r *http.Request) *openai.Error {
	list := []map[string]any{}
	for _, id := range s.memory.jobs() {
		if j, ok := readJobID(prefixJob, id); ok {
			m := s.moment(j)
			list = append(list, m.object())
		}
	}
	return writePage(w, r, list)
}

func (s *server) serveEvents(w http.ResponseWriter, r *http.Request, j *job) *openai.Error {
	m := s.moment(j)
	return writePage(w, r, newestFirst(m.events()))
}

func (s *server) serveCheckpoints(w http.ResponseWriter, r *http.Request, j *job) *openai.Error {
	m := s.moment(j)
	return writePage(w, r, m.checkpoints())
}

// writePage answers with a part of a list.
func writePage(w http.ResponseWriter, r *http.Request, list []map[string]any) *openai.Error {
	query, limit := r.URL.Query(), 20
	if s := query.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 100 {
			return openai.Code("invalid_value").On("limit", "Invalid value for 'limit': expected an integer from 1 to 100.")
		}
		limit = n
	}
	if after := query.Get("after"); after != "" {
		for i, item := range list {
			if item["id"] == after {
				list = list[i+1:]
				break
			}
		}
	}
	more := len(list) > limit
	writeJSON(w, map[string]any{"object": "list", "data": list[:min(limit, len(list))], "has_more": more})
	return nil
}

// control makes what serves a request that does something to a job: do says what, or that it is too late.
func (s *server) control(word string, do func(moment, control) (control, bool)) func(http.ResponseWriter,
	*http.Request) *openai.Error {
	return s.forJob(func(w http.ResponseWriter, _ *http.Request, j *job) *openai.Error {
		if !s.memory.change(j.id(), func(c control) (control, bool) { return do(j.at(s.now(), c), c) }) {
			return openai.BadRequest("", "The job cannot be %s: it has already ended, or is not in the right state.", word)
		}
		s.writeJob(w, j)
		return nil
	})
}

func (s *server) cancel(m moment, c control) (control, bool) {
	c.cancelled = s.now()
	return c, !m.over()
}

func (s *server) pause(m moment, c control) (control, bool) {
	c.paused = s.now()
	return c, !m.over() && m.status != "paused"
}

func (s *server) resume(m moment, c control) (control, bool) {
	c.lost += s.now().Sub(c.paused)
	c.paused = time.Time{}
	return c, m.status == "paused"
}

// serveContent answers with the metrics of a job. Training files are not kept.
func (s *server) serveContent(w http.ResponseWriter, r *http.Request) *openai.Error {
	id := pathPart(r, "files")
	j, ok := readJobID(prefixResult, id)
	if !ok {
		return errNoFile("id", id)
	}
	m := s.moment(j)
	w.Header().Set("Content-Type", "text/csv")
	_, _ = io.WriteString(w, m.csv()) // if the client has gone, nobody reads the error
	return nil
}

// serveDelete deletes a tuned model.
func (s *server) serveDelete(w http.ResponseWriter, r *http.Request) *openai.Error {
	name := pathPart(r, "models")
	if _, ok := readModelName(name); !ok || !s.memory.forget(name) {
		return openai.ModelNotFound(name)
	}
	writeJSON(w, map[string]any{"id": name, "object": "model", "deleted": true})
	return nil
}
