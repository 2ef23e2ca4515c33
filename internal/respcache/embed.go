package respcache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/textservice"
)

const (
	// maxEmbeds bounds the requests of one cache for vectors that are under way.
	maxEmbeds = 64
	// maxEmbedAnswer bounds the answer with a vector, in bytes.
	maxEmbedAnswer = 512 << 10
)

// An embedder asks a service for vectors. After a failure nobody asks it for a moment, as with Redis.
type embedder struct {
	cache      string
	config     *configv1.SimilarAnswers
	credential string
	client     *http.Client
	calls      chan struct{}
	log        *zap.Logger
	until      atomic.Int64 // time in nanoseconds before which nobody asks
	away       atomic.Bool
}

// newEmbedder returns the embedder of a cache; nil if only equal requests get an answer.
func newEmbedder(c *configv1.ResponseCache, log *zap.Logger) (*embedder, error) {
	s := c.GetSimilar()
	if s == nil {
		return nil, nil
	}
	client, err := textservice.New(s.GetCa(), maxEmbeds)
	if err != nil {
		return nil, fmt.Errorf("ResponseCache %s: %w", c.GetName(), err)
	}
	return &embedder{cache: c.GetName(), config: s, credential: c.GetCredential().GetValue(), log: log,
		calls: make(chan struct{}, maxEmbeds), client: client}, nil
}

// Trouble says which caches have no embeddings service, as they have last asked it; empty: none.
func (all Caches) Trouble() string {
	var names []string
	for _, c := range all {
		if e := c.embedder.Load(); e != nil && e.away.Load() {
			names = append(names, c.Name())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "The embeddings service did not answer when it was last asked, so only equal requests find answers. It is that " +
		"of the ResponseCache " + strings.Join(names, ", ") + "."
}

// Compared says whether a request was compared with others.
type Compared string

// The outcomes of a comparison.
const (
	ComparedDone   Compared = "done"
	ComparedFailed Compared = "failed"  // there was no vector: the service is unavailable
	ComparedFull   Compared = "skipped" // too many are under way
)

var errVector = errors.New("its answer has no vector, or one of another length")

// vector returns the vector of a text. Without one, the outcome says why; it is empty if the client has left.
func (e *embedder) vector(ctx context.Context, text string) (vector, Compared) {
	if time.Now().UnixNano() < e.until.Load() {
		return vector{}, ComparedFailed
	}
	select {
	case e.calls <- struct{}{}:
		defer func() { <-e.calls }()
	default:
		return vector{}, ComparedFull
	}
	patient, cancel := context.WithTimeout(ctx, e.config.Patience())
	defer cancel()
	v, err := e.ask(patient, text)
	switch {
	case ctx.Err() != nil: // which is no failure of the service
		return vector{}, ""
	case err != nil:
		e.until.Store(time.Now().Add(rest).UnixNano())
		if e.away.CompareAndSwap(false, true) {
			e.log.Warn("the embeddings service of a response cache is unavailable: only equal requests find answers",
				zap.String("cache", e.cache), zap.Error(err))
		}
		return vector{}, ComparedFailed
	}
	if e.away.CompareAndSwap(true, false) {
		e.log.Info("the embeddings service of a response cache is back", zap.String("cache", e.cache))
	}
	return v, ComparedDone
}

// ask asks for a vector. The error has no text and no URL.
func (e *embedder) ask(ctx context.Context, text string) (vector, error) {
	body, err := json.Marshal(struct {
		Model      string `json:"model"`
		Input      string `json:"input"`
		Dimensions uint32 `json:"dimensions,omitempty"`
		Format     string `json:"encoding_format"`
	}{e.config.GetModel(), text, e.config.GetDimensions(), "float"})
	if err != nil {
		return vector{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.config.GetUrl(), bytes.NewReader(body))
	if err != nil {
		return vector{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Modelgate-Cache")
	if e.credential != "" {
		r.Header.Set("Authorization", "Bearer "+e.credential)
	}
	response, err := e.client.Do(r)
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the URL, which may have a secret
	}
	if err != nil {
		return vector{}, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxEmbedAnswer))
	if err != nil {
		return vector{}, err
	}
	if response.StatusCode != http.StatusOK {
		return vector{}, fmt.Errorf("it answers with the status %d", response.StatusCode)
	}
	return e.read(answer)
}

// read reads the vector of an answer.
func (e *embedder) read(answer []byte) (vector, error) {
	var said struct {
		Data []struct {
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if json.Unmarshal(answer, &said) != nil || len(said.Data) != 1 {
		return vector{}, errVector
	}
	components := said.Data[0].Embedding
	wanted := int(e.config.GetDimensions())
	if len(components) > configv1.MaxDimensions || wanted > 0 && len(components) != wanted {
		return vector{}, errVector
	}
	v, ok := vectorOf(components)
	if !ok {
		return vector{}, errVector
	}
	return v, nil
}
