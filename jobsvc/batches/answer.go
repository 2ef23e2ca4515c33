package batches

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/internal/usage"
)

// maxLineAnswer is the size of the largest answer to a line, in bytes.
const maxLineAnswer = 32 << 20

// An answer is what became of a line: an answer of HTTP, or else why there is none.
type answer struct {
	status    int // 0: none
	requestID string
	body      []byte // JSON without line breaks
	code      openai.Code
	message   string
	usage     openai.Usage
}

func (a *answer) completed() bool { return a.status >= 200 && a.status < 300 }

// failure returns the code and the type of the error that an answer is, as far as it says them.
func (a *answer) failure() (code openai.Code, typ string) {
	e := gjson.GetBytes(a.body, "error")
	return openai.Code(e.Get("code").String()), e.Get("type").String()
}

// normalise makes the body of an answer one that can stand on a line, and reads its usage. A body that is no JSON is
// the trouble of its line alone.
func (a *answer) normalise() {
	if a.status == 0 {
		return
	}
	usage, err := inspect(a.body)
	switch {
	case err == nil:
	case a.completed():
		*a = answer{code: openai.CodeInvalidResponse, message: "The answer to this request is not JSON.",
			requestID: a.requestID}
		return
	default:
		e := openai.Error{Type: openai.TypeServer, Message: http.StatusText(a.status)}
		if text := bytes.TrimSpace(a.body); len(text) > 0 {
			e.Message = shortened(string(text))
		}
		a.body = e.AppendJSON(nil)
	}
	if bytes.ContainsAny(a.body, "\r\n") {
		var b bytes.Buffer
		if err := json.Compact(&b, a.body); err == nil {
			a.body = b.Bytes()
		}
	}
	if a.completed() {
		a.usage = usage
	}
}

// inspect reads a body, which must be JSON, and returns the usage that it tells of.
func inspect(body []byte) (u openai.Usage, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))
	if dec.PeekKind() != '{' {
		if err := dec.SkipValue(); err != nil {
			return u, err
		}
		return u, ended(dec)
	}
	if _, err := dec.ReadToken(); err != nil {
		return u, err
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return u, err
		}
		if name.String() != "usage" {
			err = dec.SkipValue()
		} else {
			var value jsontext.Value
			value, err = dec.ReadValue()
			u = readUsage(value)
		}
		if err != nil {
			return u, err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return u, err
	}
	return u, ended(dec)
}

func ended(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the value")
	}
	return nil
}

func readUsage(value []byte) openai.Usage {
	r := gjson.ParseBytes(value)
	count := func(path string) int64 { return openai.Count(r.Get(path).Int()) }
	var u usage.Used
	for i, f := range usage.Fields {
		if f.Path != "" {
			*u.At(usage.Kind(i)) = count(f.Path)
		}
	}
	if u.TotalTokens = count("total_tokens"); u.TotalTokens == 0 {
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	}
	return u.Usage
}

// A naming names the lines of one batch: always the same way, so that files can be written again.
type naming struct {
	batch   string
	created time.Time
}

func (n naming) appendID(dst []byte, line int) []byte {
	dst = append(dst, `{"id":"batch_req_`...)
	return append(dst, id.Derived(n.created, n.batch+"/"+strconv.Itoa(line))...)
}

// appendLine appends the line of an output or error file, without its end. The custom_id is JSON.
func (n naming) appendLine(dst []byte, line int, customID []byte, a *answer) []byte {
	dst = append(n.appendID(dst, line), `","custom_id":`...)
	dst = append(dst, customID...)
	if a.status == 0 {
		dst = openai.AppendString(append(dst, `,"response":null,"error":{"code":`...), string(a.code))
		dst = openai.AppendString(append(dst, `,"message":`...), a.message)
		return append(dst, `}}`...)
	}
	dst = strconv.AppendInt(append(dst, `,"response":{"status_code":`...), int64(a.status), 10)
	dst = openai.AppendString(append(dst, `,"request_id":`...), a.requestID)
	dst = append(append(dst, `,"body":`...), a.body...)
	return append(dst, `},"error":null}`...)
}
