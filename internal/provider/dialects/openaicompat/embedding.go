package openaicompat

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
)

// NewEmbedding returns the codec of a dialect's embeddings. Of the dialect only what is about parameters has a part in
// it. The dialect must not be modified afterwards.
func NewEmbedding(d Dialect) provider.EmbeddingCodec { return &embeddingCodec{d} }

type embeddingCodec struct{ dialect Dialect }

// Encode implements provider.EmbeddingCodec.
func (c *embeddingCodec) Encode(r *openai.EmbeddingRequest, t provider.Target) (provider.Request, provider.Answer,
	error) {
	changes := newChanges(&r.Object, &c.dialect, t)
	changes.model(r.Model)
	if !c.dialect.AsReceived { // few vendors give base64 for all models, and some then give no vectors
		changes.Remove("encoding_format")
	}
	if err := changes.parameters(); err != nil {
		return provider.Request{}, nil, err
	}
	a := &embeddings{answer: c.dialect.answer(nil, r.Model, t, false), base64: r.Base64, inputs: len(r.Inputs)}
	a.asReceived = a.asReceived && (c.dialect.AsReceived || !r.Base64)
	return changes.request("/embeddings"), a, nil
}

// embeddings implements provider.Answer.
type embeddings struct {
	*answer
	base64 bool // the client wants base64, which not every vendor gives
	inputs int  // how many vectors there have to be
}

// Decode implements provider.Answer.
func (e *embeddings) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	object := e.text(body)
	m, ok := scan(object)
	err := e.failure(object, &m, ok)
	if err != nil {
		return err
	}
	list := m.data.value(object)
	if kindOf(list) != '[' {
		return fmt.Errorf("%w: the body has no data", provider.ErrNotAnAnswer)
	}
	usage := readUsage(m.usage.value(object))
	if e.asReceived {
		vectors := 0
		eachElement(list, func([]byte) { vectors++ })
		if err := provider.EnoughVectors(vectors, e.inputs); err != nil {
			return err
		}
		chat.EmitRendered(e.rename(body, object, m.model, asked.Model), usage, out)
		return nil
	}
	dst := append(make([]byte, 0, len(object)+64), `{"object":"list","data":[`...)
	i := 0
	eachElement(list, func(data []byte) {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = e.appendVector(dst, data, i); err == nil {
			i++
		}
	})
	if err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	if err := provider.EnoughVectors(i, e.inputs); err != nil {
		return err
	}
	dst = openai.AppendString(append(dst, `],"model":`...), asked.Model)
	dst = appendCount(dst, `,"usage":{"prompt_tokens":`, usage.PromptTokens)
	dst = appendCount(dst, `,"total_tokens":`, usage.TotalTokens)
	dst = appendOthers(dst, m.usage.value(object), "prompt_tokens", "total_tokens", "completion_tokens")
	dst = append(dst, '}')
	chat.EmitRendered(append(appendOthers(dst, object, "object", "data", "model", "usage"), '}'), usage, out)
	return nil
}

// appendVector appends an element of data, the i-th.
func (e *embeddings) appendVector(dst, data []byte, i int) ([]byte, error) {
	var vector, index []byte
	eachMember(data, func(name, value []byte) {
		switch string(name) {
		case "embedding":
			vector = value
		case "index":
			index = value
		}
	})
	if k := kindOf(vector); k != '[' && k != '"' {
		return dst, fmt.Errorf("an element of data has no embedding")
	}
	if !isInteger(index) {
		index = appendCount(nil, "", int64(i))
	}
	dst = append(append(dst, `{"object":"embedding","index":`...), index...)
	dst = append(dst, `,"embedding":`...)
	switch array := kindOf(vector) == '['; {
	case array && e.base64:
		dst = appendBase64(dst, vector)
	case !array && !e.base64:
		var err error
		if dst, err = appendNumbers(dst, vector); err != nil {
			return dst, err
		}
	default:
		dst = append(dst, vector...)
	}
	return append(appendOthers(dst, data, "object", "index", "embedding"), '}'), nil
}

// appendBase64 appends an array of numbers as base64 of little-endian float32.
func appendBase64(dst, vector []byte) []byte {
	var raw []byte
	eachElement(vector, func(number []byte) {
		f, _ := strconv.ParseFloat(string(number), 32) // what is too large becomes infinite, as it does in a float32
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(f)))
	})
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), raw), '"')
}

// appendNumbers appends base64 of little-endian float32, in quotes, as an array of numbers.
func appendNumbers(dst, quoted []byte) ([]byte, error) {
	raw, err := base64.StdEncoding.AppendDecode(nil, quoted[1:len(quoted)-1])
	if err != nil || len(raw)%4 != 0 {
		return dst, errors.New("an embedding is neither numbers nor base64 of them")
	}
	dst = append(dst, '[')
	for i := 0; i < len(raw); i += 4 {
		f := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[i:])))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return dst, errors.New("an embedding has a number that JSON does not have")
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendFloat(dst, f, 'g', -1, 32)
	}
	return append(dst, ']'), nil
}
