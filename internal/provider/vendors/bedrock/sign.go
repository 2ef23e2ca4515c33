package bedrock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/go-json-experiment/json"

	"github.com/modelgate/modelgate/internal/provider"
)

// signingName is the service's name in signatures.
const signingName = "bedrock"

// sign sets the header of an API key, or the headers of a signature
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html). The signature covers what nothing on the
// way changes: the host, the path, the body, its type, and the signature's own headers.
func sign(r *provider.Request, by provider.Signing) error {
	secret := strings.TrimSpace(by.Credential.Reveal())
	c, isKeyPair, err := parseCredential(secret)
	if err != nil {
		return err
	}
	if !isKeyPair {
		r.Header.Set("Authorization", "Bearer "+secret)
		return nil
	}
	region := by.Config.GetRegion()
	if region == "" {
		return errors.New("region is required to sign requests with an access key")
	}
	host := by.Endpoint.Authority()
	path, query, _ := strings.Cut(r.Path, "?")
	signed := &http.Request{
		Method: by.Method,
		Host:   host,
		Header: http.Header{},
		// An opaque URL is signed as it stands, which is as it is sent.
		URL: &url.URL{Scheme: "https", Opaque: "//" + host + by.Endpoint.Path + path, RawQuery: query},
	}
	if t := r.Header.Get("Content-Type"); t != "" {
		signed.Header.Set("Content-Type", t)
	}
	sum := sha256.Sum256(r.Body)
	// A signer keeps the key that it derives of a secret, but by the id of the secret alone: one that was mistyped and
	// then corrected would count for the rest of the day.
	if err := v4.NewSigner().SignHTTP(context.Background(), c, signed, hex.EncodeToString(sum[:]), signingName, region,
		by.Now); err != nil {
		return err
	}
	for header, values := range signed.Header {
		r.Header[header] = values
	}
	return nil
}

// parseCredential reads an access key: what a credential_process prints (JSON), or "id:secret" with ":session token"
// if there is one. Anything else is an API key. Errors say nothing of the secret.
func parseCredential(secret string) (c aws.Credentials, isKeyPair bool, err error) {
	if secret == "" {
		return c, false, errors.New("bedrock needs a credential: an API key, or an access key as JSON or id:secret")
	}
	if secret[0] == '{' {
		var printed struct{ AccessKeyId, SecretAccessKey, SessionToken string }
		if json.Unmarshal([]byte(secret), &printed) != nil {
			return c, false, errors.New("the credential is not the JSON that a credential_process prints")
		}
		c.AccessKeyID, c.SecretAccessKey, c.SessionToken, isKeyPair = printed.AccessKeyId, printed.SecretAccessKey,
			printed.SessionToken, true
	} else if c.AccessKeyID, c.SecretAccessKey, isKeyPair = strings.Cut(secret, ":"); isKeyPair {
		c.SecretAccessKey, c.SessionToken, _ = strings.Cut(c.SecretAccessKey, ":")
	}
	if isKeyPair && (c.AccessKeyID == "" || c.SecretAccessKey == "") {
		return c, false, errors.New("the credential lacks the id or the secret of an access key")
	}
	return c, isKeyPair, nil
}
