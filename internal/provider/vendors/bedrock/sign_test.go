package bedrock

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/converse"
	"github.com/modelgate/modelgate/internal/secret"
)

const keyPair = `{"Version":1,"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"wJalrXUtnFEMI/K7MDENG+sk-test-credential-0123456789"}`

// signed signs {} for a model of a provider at base.
func signed(t *testing.T, p provider.Provider, base, region, credential string) (http.Header, error) {
	t.Helper()
	c := &configv1.Provider{Vendor: name, Endpoint: base, Region: region}
	e, err := p.Endpoint(c)
	require.NoError(t, err)
	r := provider.Request{Path: converse.OperationPath("m:0", "converse"), Header: converse.Headers("application/json"),
		Body: []byte("{}")}
	err = p.Sign(&r, provider.Signing{Config: c, Credential: secret.New(credential), Method: http.MethodPost, Endpoint: e,
		Now: time.Unix(1700000000, 0)})
	return r.Header, err
}

// The signatures are those of botocore 1.43, AWS's own implementation in another language.
func TestTheSignatureIsAWSs(t *testing.T) {
	const own = "http://127.0.0.1:8080/base"
	const want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20231114/eu-west-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-date, " +
		"Signature=37ea6d9813acafae93f1f0f4e722e9395f1acbfe9a2313be2da42751d5e6e49a"
	for form, credential := range map[string]string{
		"JSON":        keyPair,
		"a pair":      "AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+sk-test-credential-0123456789",
		"with blanks": "\n AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+sk-test-credential-0123456789\n",
	} {
		t.Run(form, func(t *testing.T) {
			h, err := signed(t, Provider(), own, "eu-west-1", credential)
			require.NoError(t, err)
			require.Equal(t, want, h.Get("Authorization"))
			require.Equal(t, "20231114T221320Z", h.Get("X-Amz-Date"))
			require.Empty(t, h.Get("X-Amz-Security-Token"))
		})
	}
}

func TestASessionTokenIsSentAndSigned(t *testing.T) {
	h, err := signed(t, Provider(), "", "us-east-1", "AKIDEXAMPLE:secret:session/token")
	require.NoError(t, err)
	require.Equal(t, "session/token", h.Get("X-Amz-Security-Token"))
	require.Contains(t, h.Get("Authorization"), "x-amz-security-token")
}

func TestASecretThatIsCorrectedCountsAtOnce(t *testing.T) {
	p := Provider()
	_, err := signed(t, p, "http://127.0.0.1:8080/base", "eu-west-1", "AKIDEXAMPLE:mistyped")
	require.NoError(t, err)
	after, err := signed(t, p, "http://127.0.0.1:8080/base", "eu-west-1", keyPair)
	require.NoError(t, err)
	require.Contains(t, after.Get("Authorization"), "Signature=37ea6d98")
}

func TestAnAPIKeyNeedsNoRegion(t *testing.T) {
	for _, key := range []string{"ABSKQmVkcm9ja0FQSUtleQ==", "bedrock-api-key-YmVkcm9jay5hbWF6b25hd3M="} {
		h, err := signed(t, Provider(), "https://bedrock.example.com", "", key)
		require.NoError(t, err)
		require.Equal(t, "Bearer "+key, h.Get("Authorization"))
		require.Empty(t, h.Get("X-Amz-Date"))
	}
}

func TestACredentialThatCannotBeUsedIsAnErrorThatDoesNotShowIt(t *testing.T) {
	for _, credential := range []string{"", "{", `{"AccessKeyId":"AKIDEXAMPLE"}`, `{"SecretAccessKey":"tops3cret"}`,
		"AKIDEXAMPLE:", ":tops3cret", `{"SecretAccessKey":tops3cret}`} {
		_, err := signed(t, Provider(), "", "us-east-1", credential)
		require.Error(t, err, credential)
		require.NotContains(t, err.Error(), "tops3cret")
	}
	_, err := signed(t, Provider(), "https://bedrock.example.com", "", keyPair)
	require.ErrorContains(t, err, "region is required")
}

func TestWhereTheVendorIs(t *testing.T) {
	p := Provider()
	e, err := p.Endpoint(&configv1.Provider{Vendor: name, Region: "eu-central-1"})
	require.NoError(t, err)
	require.Equal(t, provider.Endpoint{TLS: true, Host: "bedrock-runtime.eu-central-1.amazonaws.com", Port: 443}, e)
	_, err = p.Endpoint(&configv1.Provider{Vendor: name})
	require.ErrorContains(t, err, "region is required")
	_, err = p.Endpoint(&configv1.Provider{Vendor: name, Region: "us-east-1.example.com/"})
	require.ErrorContains(t, err, "not the name of an AWS region")
}

func TestAModelIsOneSegmentOfThePath(t *testing.T) {
	for model, want := range map[string]string{
		"amazon.nova-lite-v1:0":                           "/model/amazon.nova-lite-v1%3A0/converse",
		"arn:aws:bedrock:us-east-1::foundation-model/a.b": "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A%3Afoundation-model%2Fa.b/converse",
		"../x?y#z%20\u00e9":                               "/model/..%2Fx%3Fy%23z%2520%C3%A9/converse",
	} {
		require.Equal(t, want, converse.OperationPath(model, "converse"))
	}
}
