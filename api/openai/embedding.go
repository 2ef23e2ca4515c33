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

// An EmbeddingRequest is an embedding request that has been checked once. It is immutable and safe for concurrent use.
type EmbeddingRequest struct {
	Object

	Model      string
	Inputs     []Input
	Dimensions int64 // 0 where the client does not say
	Base64     bool  // the client wants base64 in place of numbers
	User       string
}

// An Input is one text: as it is, or as tokens, which are not nil then.
type Input struct {
	Text   string
	Tokens []int64
}

// ParseEmbeddingRequest checks body and returns what it holds. It keeps body. An error is an *Error with status 400 that
// names the member at fault.
func ParseEmbeddingRequest(body []byte) (*EmbeddingRequest, error) {
	r := &EmbeddingRequest{Object: Object{Body: body}}
	if err := r.read(values(r.checkValue)); err != nil {
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

// embeddingChecks are the members of an embedding request whose type or range is known, the input apart.
var embeddingChecks = map[string]check{
	"model":           kind("a string", '"'),
	"dimensions":      integer(1, maxInteger),
	"encoding_format": kind("a string", '"'),
	"user":            kind("a string", '"'),
}

func (r *EmbeddingRequest) checkValue(name string, v jsontext.Value) (err error) {
	if v.Kind() == 'n' {
		return nil
	}
	if f := embeddingChecks[name]; f != nil {
		if err := f(name, v); err != nil {
			return err
		}
	}
	switch name {
	case "model":
		r.Model = unquote(v)
	case "user":
		r.User = unquote(v)
	case "dimensions":
		r.Dimensions, err = strconv.ParseInt(string(v), 10, 64)
	case "encoding_format":
		format := unquote(v)
		if r.Base64 = format == "base64"; !r.Base64 && format != "float" {
			err = BadRequest(name, "invalid_value", "Invalid value: '%s'. Supported values are: 'float' and 'base64'.", format)
		}
	case "input":
		r.Inputs, err = readInputs(name, v)
	}
	return err
}

// readInputs reads a text, a list of texts, the tokens of a text, or a list of such. At least one comes out.
func readInputs(param string, v jsontext.Value) ([]Input, error) {
	if v.Kind() == '"' {
		return []Input{{Text: unquote(v)}}, nil
	}
	if v.Kind() != '[' {
		return nil, wrongType(param, "a string, an array of strings, or an array of tokens", v.Kind())
	}
	var items []jsontext.Value
	if err := json.Unmarshal(v, &items); err != nil {
		return nil, notJSON(err)
	}
	if len(items) == 0 {
		return nil, BadRequest(param, "empty_array", "Invalid '%s': empty array. Expected an array with minimum length 1, but got an empty array instead.", param)
	}
	if items[0].Kind() == '0' {
		tokens, err := readTokens(param, v)
		return []Input{{Tokens: tokens}}, err
	}
	inputs := make([]Input, len(items))
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", param, i)
		switch k := item.Kind(); {
		case k != items[0].Kind():
			return nil, wrongType(at, "the same type as the items before", k)
		case k == '"':
			inputs[i].Text = unquote(item)
		case k == '[':
			tokens, err := readTokens(at, item)
			if err != nil {
				return nil, err
			}
			inputs[i].Tokens = tokens
		default:
			return nil, wrongType(at, "a string or an array of tokens", k)
		}
	}
	return inputs, nil
}

func readTokens(param string, v jsontext.Value) ([]int64, error) {
	if err := arrayOf("a token, which is an integer", '0')(param, v); err != nil {
		return nil, err
	}
	tokens := []int64{}
	if err := json.Unmarshal(v, &tokens); err != nil {
		return nil, BadRequest(param, "invalid_type", "Invalid type for '%s': expected tokens, which are integers.", param)
	}
	if len(tokens) == 0 {
		return nil, BadRequest(param, "empty_array", "Invalid '%s': empty array. Expected an array with minimum length 1, but got an empty array instead.", param)
	}
	return tokens, nil
}

// AppendEmbeddings appends the answer to an embedding request to dst: vectors are JSON arrays of numbers, in the order of
// the inputs, which are given as they are or, with asBase64, as base64 of little-endian float32.
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
