package provider

import "fmt"

// EnoughVectors returns an error for an answer with fewer embeddings than the request has inputs. Some vendors answer
// with none and status 200 where a model does not do what was asked.
func EnoughVectors(vectors, inputs int) error {
	if vectors < inputs {
		return fmt.Errorf("%w: %d embeddings of %d inputs", ErrNotAnAnswer, vectors, inputs)
	}
	return nil
}
