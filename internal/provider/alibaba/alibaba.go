// Package alibaba is Alibaba Cloud's Model Studio (DashScope), which serves the Qwen models in OpenAI's dialect.
//
// What a newcomer gets wrong: keys hold for one region. Without a region it is Singapore, where the international keys are
// from.
package alibaba

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/openaicompat"
)

const name = "alibaba"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		BaseURL:           baseURL,
		CredentialEnv:     "DASHSCOPE_API_KEY",
		CredentialHeaders: []string{"authorization", "x-dashscope-workspace"},
		Sign:              openaicompat.Bearer,
		DecodeError:       decodeError,
		Chat: openaicompat.New(openaicompat.Dialect{
			Vendor: name,
			Unsupported: []string{
				"frequency_penalty", "logit_bias", "prediction", "service_tier", "verbosity", "web_search_options", "functions",
				"function_call",
			},
			SystemRole: true,
			Rewrite:    rewrite,
		}),
		Embedding: openaicompat.NewEmbedding(openaicompat.Dialect{Vendor: name, FloatsOnly: true}),
	}
}

// hosts are where the vendor serves, by region.
var hosts = map[string]string{
	"":               "dashscope-intl.aliyuncs.com",
	"ap-southeast-1": "dashscope-intl.aliyuncs.com",
	"us-east-1":      "dashscope-us.aliyuncs.com",
	"cn-beijing":     "dashscope.aliyuncs.com",
	"cn-hongkong":    "cn-hongkong.dashscope.aliyuncs.com",
}

func baseURL(c *configv1.Provider) (string, error) {
	host := hosts[c.GetRegion()]
	if host == "" {
		known := slices.DeleteFunc(slices.Sorted(maps.Keys(hosts)), func(region string) bool { return region == "" })
		return "", fmt.Errorf("is required for the region %q: without one the region must be one of %s", c.GetRegion(), strings.Join(known, ", "))
	}
	return "https://" + host + "/compatible-mode/v1", nil
}

// decodeError reads the vendor's error. An account in arrears and content that was not to be have status 400, and rate
// limits have names of their own.
func decodeError(status int, header http.Header, body []byte) *openai.Error {
	code := gjson.GetBytes(body, "error.code").Str
	if code == "" { // the vendor's own API
		code = gjson.GetBytes(body, "code").Str
	}
	if code == "Arrearage" {
		status = http.StatusPaymentRequired
	}
	e := openaicompat.DecodeError(status, header, body)
	switch {
	case code == "Arrearage":
		e.Code = "insufficient_quota"
	case code == "data_inspection_failed", code == "DataInspectionFailed":
		e.Type, e.Code = openai.TypeInvalidRequest, "content_filter"
	case e.Status == http.StatusTooManyRequests && !e.NoRetry:
		e.Type, e.Code = openai.TypeRequests, "rate_limit_exceeded"
	}
	return e
}
