package fakeprovider

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

const (
	dimensions    = 16 // of an embedding, if the client does not say
	maxDimensions = 4096
)

// serveEmbeddings answers with vectors of length one that depend on nothing but the input and their dimensions.
func (s *server) serveEmbeddings(w http.ResponseWriter, r *http.Request) *openai.Error {
	body, e := readBody(w, r)
	if e != nil {
		return e
	}
	request, err := openai.ParseEmbeddingRequest(body)
	if err != nil {
		return asError(err)
	}
	n := int64(dimensions)
	if request.Dimensions > 0 {
		n = request.Dimensions
	}
	if n > maxDimensions {
		return openai.Code("invalid_value").On("dimensions", "Invalid value for 'dimensions': the most is %d.",
			maxDimensions)
	}
	var usage openai.Usage
	var vectors []jsontext.Value
	for _, input := range request.Inputs {
		usage.PromptTokens += words(input.Text) + int64(len(input.Tokens))
		text, err := json.Marshal(vector(input, int(n)))
		if err != nil {
			return asError(err)
		}
		vectors = append(vectors, text)
	}
	usage.TotalTokens = usage.PromptTokens
	answer, err := openai.AppendEmbeddings(nil, request.Model, vectors, request.Base64, usage)
	if err != nil {
		return asError(err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // if the client has gone, nobody reads the error
	return nil
}

// vector returns n numbers made of hashes of the input.
func vector(input openai.Input, n int) []float32 {
	seed := sha256.New()
	_, _ = io.WriteString(seed, input.Text) // a hash takes anything
	for _, token := range input.Tokens {
		_ = binary.Write(seed, binary.BigEndian, token)
	}
	sum := seed.Sum(nil)
	numbers, squares := make([]float64, n), 0.0
	for i := range numbers {
		block := sha256.Sum256(binary.BigEndian.AppendUint32(sum, uint32(i)))
		numbers[i] = float64(int32(binary.BigEndian.Uint32(block[:]))) / (1 << 31)
		squares += numbers[i] * numbers[i]
	}
	length := max(math.Sqrt(squares), 1e-9)
	out := make([]float32, n)
	for i, x := range numbers {
		out[i] = float32(x / length)
	}
	return out
}

// readBody reads a request that is small enough.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *openai.Error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, &openai.Error{Status: http.StatusRequestEntityTooLarge, Type: openai.TypeInvalidRequest,
			Code: "request_too_large", Message: "The request is too large."}
	}
	if err != nil {
		return nil, openai.BadRequest("", "The request could not be read.")
	}
	return body, nil
}
