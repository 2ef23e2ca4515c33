// Package bedrock is Amazon Bedrock: the Converse API, which serves the models of every publisher there in one
// dialect, and InvokeModel for embeddings. What is lossy is in README.md.
//
// One dialect does not mean that models take the same. What a model refuses is in the catalog,
// and what the models of a publisher demand of a conversation is in families.go; the codec asks these and never a
// model's name.
package bedrock

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

// name is the vendor's.
const name = "bedrock"

// eventStream is the media type of streams.
const eventStream = "application/vnd.amazon.eventstream"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		StreamTypes:       []string{eventStream},
		SignsBody:         true, // SigV4
		BaseURL:           baseURL,
		CredentialEnv:     "AWS_BEARER_TOKEN_BEDROCK",
		CredentialHosts:   regions(),
		CredentialHeaders: []string{"authorization", "x-amz-date", "x-amz-security-token"},
		Sign:              sign,
		DecodeError:       decodeError,
		Chat:              legacy.Functions(chatCodec{}),
		Embedding:         embeddingCodec{},
	}
}

func baseURL(c *configv1.Provider) (string, error) {
	region := c.GetRegion()
	switch {
	case region == "":
		return "", errors.New("region is required, such as us-east-1, for bedrock is served in regions; or set endpoint")
	case !isRegion(region):
		return "", fmt.Errorf("region %q is not the name of an AWS region, such as us-east-1", region)
	}
	return "https://bedrock-runtime." + region + ".amazonaws.com", nil
}

// regions are the hosts of all regions. They name the continent because elsewhere below amazonaws.com are hosts of
// AWS's clients, such as a bucket's that has any name.
func regions() []string {
	var hosts []string
	for _, continent := range []string{"us", "eu", "ap", "ca", "sa", "me", "af", "il", "mx"} {
		for _, service := range []string{"bedrock-runtime", "bedrock-runtime-fips"} {
			hosts = append(hosts, service+"."+continent+"-*-*.amazonaws.com")
		}
	}
	return hosts
}

func isRegion(s string) bool {
	return len(s) < 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// operationPath returns the path of an operation of a model. The model is one segment, however many colons and slashes
// it has, and is escaped once; the signature escapes it again.
func operationPath(model, operation string) string {
	const hex = "0123456789ABCDEF"
	p := append(make([]byte, 0, len("/model/")+len(model)+len(operation)+16), "/model/"...)
	for i := range len(model) {
		c := model[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~", c) >= 0 {
			p = append(p, c)
		} else {
			p = append(p, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(append(append(p, '/'), operation...))
}

// headers are those of a request whose answer is to be of the media type.
func headers(accept string) http.Header {
	return http.Header{"Content-Type": {"application/json"}, "Accept": {accept}}
}
