package batches

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/jobsvc/files"
)

const (
	maxCustomID  = 512 // in characters
	maxModelName = 256 // in bytes
)

// A request is one line of the input. Its slices are parts of the line.
type request struct {
	customID  []byte // as JSON
	method    string
	url       string
	body      []byte
	model     string
	maxTokens int64 // that may be answered; 0: it does not say
}

// A parser reads lines. It is used by one goroutine.
type parser struct {
	dec      jsontext.Decoder
	endpoint string

	line    []byte
	request request
	problem *Problem
}

// parse returns the request of a line, or what is wrong with it.
func (p *parser) parse(line []byte) (request, *Problem) {
	p.line, p.request, p.problem = line, request{}, nil
	// The last of several members of one name counts, as with most readers.
	p.dec.Reset(bytes.NewBuffer(line), jsontext.AllowDuplicateNames(true))
	if err := p.read(); err != nil {
		return request{}, &Problem{Code: openai.CodeInvalidJSONLine, Message: "This line is not parseable as valid JSON."}
	}
	if p.problem == nil {
		p.check()
	}
	return p.request, p.problem
}

// valid returns the request of a line that was validated before.
func (p *parser) valid(line []byte, number int) (request, error) {
	r, problem := p.parse(line)
	if problem != nil {
		return r, fmt.Errorf("line %d is not what was validated: %s: %w", number, problem.Code, files.ErrMissing)
	}
	return r, nil
}

func (p *parser) blame(code openai.Code, param, format string, args ...any) {
	if p.problem == nil {
		p.problem = &Problem{Code: code, Param: param, Message: fmt.Sprintf(format, args...)}
	}
}

// read reads the line to its end. Its error means that the line is no JSON.
func (p *parser) read() error {
	if p.dec.PeekKind() != '{' {
		p.blame(openai.CodeInvalidRequest, "",
			"This line must be a JSON object with 'custom_id', 'method', 'url' and 'body'.")
		if _, err := p.dec.ReadValue(); err != nil {
			return err
		}
	} else if err := p.members(p.member); err != nil {
		return err
	}
	if _, err := p.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the value")
	}
	return nil
}

// members reads an object. Each steps over the value of the member.
func (p *parser) members(each func(name string) error) error {
	if _, err := p.dec.ReadToken(); err != nil {
		return err
	}
	for p.dec.PeekKind() != '}' {
		name, err := p.dec.ReadToken()
		if err != nil {
			return err
		}
		if err := each(name.String()); err != nil {
			return err
		}
	}
	_, err := p.dec.ReadToken()
	return err
}

func (p *parser) member(name string) error {
	switch name {
	case "custom_id":
		return p.customID()
	case "method":
		return p.text("method", &p.request.method)
	case "url":
		return p.text("url", &p.request.url)
	case "body":
		return p.body()
	}
	return p.dec.SkipValue()
}

func (p *parser) customID() error {
	value, err := p.dec.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() != '"' {
		p.blame(openai.CodeInvalidRequest, "custom_id", "Invalid type for 'custom_id': expected a string.")
		return nil
	}
	end := p.dec.InputOffset()
	p.request.customID = p.line[end-int64(len(value)) : end]
	return nil
}

// unquoted returns what a JSON string says.
func unquoted(raw []byte) []byte {
	text, _ := jsontext.AppendUnquote(nil, raw) // it was read as a string before
	return text
}

// text reads a string into to.
func (p *parser) text(param string, to *string) error {
	if p.dec.PeekKind() != '"' {
		p.blame(openai.CodeInvalidRequest, param, "Invalid type for '%s': expected a string.", param)
		return p.dec.SkipValue()
	}
	token, err := p.dec.ReadToken()
	if err == nil {
		*to = token.String()
	}
	return err
}

func (p *parser) body() error {
	if p.dec.PeekKind() != '{' {
		p.blame(openai.CodeInvalidRequest, "body",
			"Invalid type for 'body': expected an object, the body of a request to the endpoint.")
		return p.dec.SkipValue()
	}
	p.request.model, p.request.maxTokens = "", 0
	before := p.dec.InputOffset()
	if err := p.members(p.bodyMember); err != nil {
		return err
	}
	body := p.line[before:p.dec.InputOffset()]
	p.request.body = body[bytes.IndexByte(body, '{'):]
	return nil
}

func (p *parser) bodyMember(name string) error {
	switch name {
	case "model":
		return p.text("body.model", &p.request.model)
	case "stream":
		value, err := p.dec.ReadValue()
		if value.Kind() == 't' {
			p.blame(openai.CodeInvalidRequest, "body.stream",
				"Answers of a batch cannot be streamed. Remove 'stream' from the body.")
		}
		return err
	case "max_tokens", "max_completion_tokens":
		value, err := p.dec.ReadValue()
		if n, bad := strconv.ParseInt(string(value), 10, 32); bad == nil && n > 0 {
			p.request.maxTokens = n
		}
		return err
	}
	return p.dec.SkipValue()
}

// check checks a request whose types are right.
func (p *parser) check() {
	r := &p.request
	for _, member := range []struct {
		name    string
		missing bool
	}{
		{"custom_id", r.customID == nil}, {"method", r.method == ""}, {"url", r.url == ""}, {"body", r.body == nil},
		{"body.model", r.model == "" && r.body != nil},
	} {
		if member.missing {
			p.blame(openai.CodeMissingRequiredParameter, member.name, "Missing required parameter: '%s'.", member.name)
		}
	}
	if p.problem != nil {
		return
	}
	switch n := utf8.RuneCount(unquoted(r.customID)); {
	case n == 0:
		p.blame(openai.CodeInvalidRequest, "custom_id", "Invalid 'custom_id': it is empty.")
	case n > maxCustomID:
		p.blame(openai.CodeInvalidRequest, "custom_id",
			"Invalid 'custom_id': string too long. Expected at most %d characters, but got %d instead.", maxCustomID, n)
	case r.method != "POST":
		p.blame(openai.CodeInvalidRequest, "method", "Invalid value: '%s'. The only supported method is 'POST'.",
			shortened(r.method))
	case r.url != p.endpoint:
		p.blame(openai.CodeURLMismatch, "url", "The URL provided for this request does not match the batch endpoint '%s'.",
			p.endpoint)
	case len(r.model) > maxModelName:
		p.blame(openai.CodeInvalidRequest, "body.model",
			"Invalid 'body.model': string too long. Expected at most %d bytes, but got %d instead.", maxModelName, len(r.model))
	}
}
