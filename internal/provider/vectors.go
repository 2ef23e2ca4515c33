package provider

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

// Vectors are what a request for embeddings wants. Answers embed it.
type Vectors struct {
	Unstreamed
	Base64 bool // instead of numbers
	Inputs int  // how many vectors there have to be
}

// VectorsOf returns what a request wants.
func VectorsOf(r *openai.EmbeddingRequest) Vectors {
	return Vectors{Base64: r.Base64, Inputs: len(r.Inputs)}
}

// Emit emits an answer with vectors, which are arrays of numbers.
func (v Vectors) Emit(vectors []jsontext.Value, u openai.Usage, asked chat.Asked, out chat.Sink) error {
	if err := EnoughVectors(len(vectors), v.Inputs); err != nil {
		return err
	}
	size := 0
	for _, one := range vectors {
		size += len(one)
	}
	rendered, err := openai.AppendEmbeddings(make([]byte, 0, size+512), asked.Model, vectors, v.Base64, u)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotAnAnswer, err)
	}
	chat.EmitRendered(rendered, u, out)
	return nil
}

// EnoughVectors returns an error for an answer with fewer embeddings than the request has inputs. Some vendors answer
// with none and status 200 if a model does not do what was asked.
func EnoughVectors(vectors, inputs int) error {
	if vectors < inputs {
		return fmt.Errorf("%w: %d embeddings of %d inputs", ErrNotAnAnswer, vectors, inputs)
	}
	return nil
}
