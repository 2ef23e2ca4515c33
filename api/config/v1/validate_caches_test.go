package configv1_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestSimilarAnswersAreChecked(t *testing.T) {
	cache := func(change func(*configv1.ResponseCache)) configv1.Errors {
		c := &configv1.ResponseCache{Name: "c", Similar: &configv1.SimilarAnswers{Url: "https://e.example/v1/embeddings",
			Model: "m"}, Credential: value("sk-1")}
		change(c)
		return configv1.Validate(c, knownVendor)
	}
	require.Empty(t, cache(func(*configv1.ResponseCache) {}))
	for field, change := range map[string]func(*configv1.ResponseCache){
		"similar.url":        func(c *configv1.ResponseCache) { c.Similar.Url = "unix:///socket" },
		"similar.model":      func(c *configv1.ResponseCache) { c.Similar.Model = "" },
		"similar.dimensions": func(c *configv1.ResponseCache) { c.Similar.Dimensions = 4097 },
		"similar.threshold":  func(c *configv1.ResponseCache) { c.Similar.Threshold = 0.49 },
		"similar.timeout":    func(c *configv1.ResponseCache) { c.Similar.Timeout = durationpb.New(11 * time.Second) },
		"similar.ca":         func(c *configv1.ResponseCache) { c.Similar.Ca = "x" },
		"credential":         func(c *configv1.ResponseCache) { c.Similar = nil },
		"credential.value":   func(c *configv1.ResponseCache) { c.Credential = value("sk\n1") },
	} {
		errs := cache(change)
		require.Len(t, errs, 1, field)
		require.Equal(t, field, errs[0].Field)
	}
	for _, threshold := range []float64{1.01, -1, math.NaN(), math.Inf(1)} {
		require.Len(t, cache(func(c *configv1.ResponseCache) { c.Similar.Threshold = threshold }), 1)
	}
}
