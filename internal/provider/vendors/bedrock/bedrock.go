// Package bedrock is Amazon Bedrock: the Converse API (dialects/converse), and InvokeModel for embeddings and for
// Claude's own dialect, all signed with SigV4. README.md lists what the translation loses.
package bedrock

import (
	"errors"
	"fmt"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/converse"
	"github.com/modelgate/modelgate/internal/provider/dialects/rerank"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

// name is the vendor's.
const name = "bedrock"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		Fields:            []string{"region"},
		StreamTypes:       []string{converse.EventStream},
		SignsBody:         true, // SigV4
		BaseURL:           baseURL,
		CredentialEnv:     "AWS_BEARER_TOKEN_BEDROCK",
		CredentialHosts:   regions(),
		CredentialHeaders: []string{"authorization", "x-amz-date", "x-amz-security-token"},
		Sign:              sign,
		Cloud:             configv1.AWS,
		DecodeError:       converse.DecodeError,
		Chat:              legacy.Functions(converse.Codec{}),
		TakesThinking:     true,
		Messages:          native{},
		Embedding:         embeddingCodec{},
		Rerank:            rerank.New(reranking()),
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
