package fakeprovider

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/openai"
)

// The server keeps no files, jobs or models: ids carry what there is to know of them, as base64url of JSON, so that
// they mean the same after a restart and to every replica.
const (
	prefixFile   = "file-"
	prefixJob    = "ftjob-"
	prefixResult = "file-result-"
	prefixModel  = "ft:echo:"
	checkpointOf = ":ckpt-step-"
)

// maxName bounds the name of a model in bytes, so that one of a checkpoint has at most the 256 of a configured model.
// A style that does not fit is left out.
const maxName = 244

func pack(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)  // which would make a style longer
	if e.Encode(v) != nil { // only structs of texts and numbers are packed
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(bytes.TrimSpace(b.Bytes()))
}

func unpack(s string, v any) bool {
	text, err := base64.RawURLEncoding.DecodeString(s)
	return err == nil && json.Unmarshal(text, v) == nil
}

// nonce tells ids apart that would otherwise be the same.
func nonce() string { return rand.Text()[:10] }

func (t training) id() string { return prefixFile + pack(t) }

func readFileID(id string) (t training, ok bool) {
	s, ok := strings.CutPrefix(id, prefixFile)
	return t, ok && unpack(s, &t)
}

// A job is a fine-tuning job. File and Validation are ids.
type job struct {
	Created    int64  `json:"c"` // Unix time in milliseconds
	Model      string `json:"m"`
	Suffix     string `json:"s,omitempty"`
	Method     string `json:"k"`
	Epochs     int64  `json:"e"`
	BatchSize  int64  `json:"b"`
	Seed       int64  `json:"d"`
	Validation string `json:"v,omitempty"`
	Nonce      string `json:"x"`

	file training
}

// id returns the job's id: the job's own part and the training file's.
func (j *job) id() string { return prefixJob + j.rest() }

// result returns the id of the file with the job's metrics.
func (j *job) result() string { return prefixResult + j.rest() }

func (j *job) rest() string { return pack(j) + "." + pack(j.file) }

func readJobID(prefix, id string) (*job, bool) {
	s, ok := strings.CutPrefix(id, prefix)
	own, file, both := strings.Cut(s, ".")
	var j job
	if !ok || !both || !unpack(own, &j) || !unpack(file, &j.file) {
		return nil, false
	}
	return &j, true
}

func (j *job) created() time.Time { return time.UnixMilli(j.Created) }

// A tuned model is the result of a job. An empty style means none.
type tuned struct {
	examples int
	style    style
}

// makes returns the name of the model that the job makes.
func (j *job) makes() string {
	suffix := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, j.Suffix)
	name := func(s style) string {
		return prefixModel + suffix + ":" + pack([...]any{j.file.Examples, s.Before, s.After, j.Nonce}) // a list is shorter
	}
	if styled := name(j.file.Style); len(styled) <= maxName {
		return styled
	}
	return name(style{})
}

// readModelName returns the tuned model with a name, which may also be a checkpoint's.
func readModelName(name string) (m tuned, ok bool) {
	s, ok := strings.CutPrefix(name, prefixModel)
	_, s, both := strings.Cut(s, ":")
	s, _, _ = strings.Cut(s, checkpointOf)
	return m, ok && both && unpack(s, &[...]any{&m.examples, &m.style.Before, &m.style.After})
}

// says returns what the model answers.
func (m tuned) says(text string) string {
	if m.style == (style{}) {
		return fmt.Sprintf("[tuned on %d examples] ", m.examples) + text
	}
	return m.style.Before + text + m.style.After
}

// errNoJob is the error for a job that does not exist, as OpenAI words it.
func errNoJob(id string) *openai.Error {
	return &openai.Error{Status: 404, Type: openai.TypeInvalidRequest, Param: "fine_tune_id", Code: "fine_tune_not_found",
		Message: "Could not find fine tune: " + id}
}
