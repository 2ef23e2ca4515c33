package dialects_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
)

func TestAcmeIsADialect(t *testing.T) {
	o := dialects.Find("/v1/acme/questions", "")
	require.NotNil(t, o)
	r, err := o.Parse(inbound.Head{}, []byte(`{"model":"m","question":"Why?"}`))
	require.NoError(t, err)
	require.Equal(t, "m", r.Model)

	_, err = o.Parse(inbound.Head{}, []byte(`{"model":"m"}`))
	var refused *openai.Error
	require.ErrorAs(t, err, &refused)
	require.JSONEq(t, `{"failure":"The question is missing."}`, string(o.Dialect.AppendError(nil, refused)))

	of := dialects.Of("/v1/models", func(name string) string { return map[string]string{"x-acme-version": "1"}[name] })
	require.Equal(t, "acme", of.Name)
}
