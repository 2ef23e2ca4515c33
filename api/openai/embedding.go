package openai

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// An EmbeddingRequest is an embedding request that was checked once. It is immutable and safe for concurrent use.
type EmbeddingRequest struct {
	Object

	Model      string
	Inputs     []Input
	Dimensions int64 // 0 if the client does not set it
	Base64     bool  // the client wants base64 instead of numbers
	User       string
}

// An Input is one text, or its tokens if they are not nil.
type Input struct {
	Text   string
	Tokens []int64
}

// ParseEmbeddingRequest checks and parses body. It keeps body. An error is an *Error with status 400 that names the
// wrong member.
func ParseEmbeddingRequest(body []byte) (*EmbeddingRequest, error) {
	r := &EmbeddingRequest{Object: Object{Members: Members{Body: body}}}
	if err := r.read(r.checkMember); err != nil {
		return nil, err
	}
	if err := r.checkModel(r.Model); err != nil {
		return nil, err
	}
	if r.present("input") == nil {
		return nil, missing("input")
	}
	return r, nil
}

// embeddingChecks are the members of an embedding request with a known type or range, except for the input.
var embeddingChecks = map[string]check{
	"model":           kind("a string", '"'),
	"dimensions":      integer(1, maxInteger),
	"encoding_format": kind("a string", '"'),
	"user":            kind("a string", '"'),
}

func (r *EmbeddingRequest) checkMember(c *cursor, name string) (err error) {
	start := c.at
	switch k := c.peek(); {
	case k == 'n':
		c.value()
		return nil
	case name == "input":
		r.Inputs, err = readInputs(name, c)
		return err
	case embeddingChecks[name] == nil:
		c.value()
		return nil
	}
	if err := embeddingChecks[name](name, c); err != nil {
		return err
	}
	switch v := jsontext.Value(c.data[start:c.at]); name {
	case "model":
		r.Model = Unquote(v)
	case "user":
		r.User = Unquote(v)
	case "dimensions":
		r.Dimensions, err = strconv.ParseInt(string(v), 10, 64)
	case "encoding_format":
		format := Unquote(v)
		if r.Base64 = format == "base64"; !r.Base64 && format != "float" {
			err = CodeInvalidValue.On(name, "Invalid value: '%s'. Supported values are: 'float' and 'base64'.", format)
		}
	}
	return err
}

// readInputs reads a text, a list of texts, the tokens of a text, or a list of tokens of texts. It returns at least
// one.
func readInputs(param string, c *cursor) ([]Input, error) {
	switch k := c.peek(); k {
	case '"':
		return []Input{{Text: string(c.str())}}, nil
	case '[':
	default:
		return nil, WrongType(param, "a string, an array of strings, or an array of tokens", k)
	}
	list := *c
	c.enter()
	if !c.more() {
		return nil, emptyArray(param)
	}
	first := c.peek()
	if first == '0' {
		*c = list
		tokens, err := readTokens(param, c)
		return []Input{{Tokens: tokens}}, err
	}
	var inputs []Input
	for more := true; more; more = c.more() {
		at := func() string { return param + "[" + strconv.Itoa(len(inputs)) + "]" }
		switch k := c.peek(); {
		case len(inputs) == maxInputs:
			return nil, tooLong(param, maxInputs)
		case k != first:
			return nil, WrongType(at(), "the same type as the items before", k)
		case k == '"':
			inputs = append(inputs, Input{Text: string(c.str())})
		case k == '[':
			tokens, err := readTokens(at(), c)
			if err != nil {
				return nil, err
			}
			inputs = append(inputs, Input{Tokens: tokens})
		default:
			return nil, WrongType(at(), "a string or an array of tokens", k)
		}
	}
	return inputs, nil
}

func readTokens(param string, c *cursor) ([]int64, error) {
	var tokens []int64
	for c.enter(); c.more(); {
		if k := c.peek(); k != '0' {
			return nil, WrongType(param+"["+strconv.Itoa(len(tokens))+"]", "a token, which is an integer", k)
		}
		n, err := strconv.ParseInt(string(c.value()), 10, 64)
		if err != nil {
			return nil, CodeInvalidType.On(param, "Invalid type for '%s': expected tokens, which are integers.", param)
		}
		tokens = append(tokens, n)
	}
	if len(tokens) == 0 {
		return nil, emptyArray(param)
	}
	return tokens, nil
}

// AppendEmbeddings appends the answer to an embedding request to dst. The vectors are JSON arrays of numbers, in the
// order of the inputs. They are written unchanged or, with asBase64, as base64 of little-endian float32.
func AppendEmbeddings(dst []byte, model string, vectors []jsontext.Value, asBase64 bool, u Usage) ([]byte, error) {
	dst = append(dst, `{"object":"list","data":[`...)
	for i, v := range vectors {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendInt(dst, `{"object":"embedding","index":`, int64(i))
		dst = append(dst, `,"embedding":`...)
		if !asBase64 {
			dst = append(append(dst, v...), '}')
			continue
		}
		var numbers []float64
		if err := json.Unmarshal(v, &numbers); err != nil {
			return nil, fmt.Errorf("reading an embedding: %w", err)
		}
		raw := make([]byte, 0, 4*len(numbers))
		for _, n := range numbers {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(n)))
		}
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, raw)
		dst = append(dst, `"}`...)
	}
	dst = append(dst, `],"model":`...)
	dst = AppendString(dst, model)
	dst = appendInt(dst, `,"usage":{"prompt_tokens":`, u.PromptTokens)
	dst = appendInt(dst, `,"total_tokens":`, max(u.TotalTokens, u.PromptTokens))
	return append(dst, "}}"...), nil
}
