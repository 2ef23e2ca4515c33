// Package alibaba is Alibaba Cloud's Model Studio (DashScope), which serves the Qwen models in OpenAI's dialect.
//
// A key is valid for one region. The default region is Singapore, where international keys are issued.
package alibaba

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

const name = "alibaba"

// Provider returns the vendor.
func Provider() provider.Provider {
	d := openaicompat.Dialect{
		Vendor: name,
		Unsupported: []string{
			"frequency_penalty", "logit_bias", "prediction", "service_tier", "verbosity", "web_search_options", "functions",
			"function_call",
		},
		SystemRole: true,
		Rewrite:    rewrite,
		Codes: map[string]openai.Code{ // https://www.alibabacloud.com/help/en/model-studio/error-code
			"Arrearage":              openai.CodeInsufficientQuota,
			"data_inspection_failed": openai.CodeContentFilter, "DataInspectionFailed": openai.CodeContentFilter,
			"Throttling": openai.CodeRateLimitExceeded, "Throttling.RateQuota": openai.CodeRateLimitExceeded,
			"Throttling.BurstRate":       openai.CodeRateLimitExceeded,
			"Throttling.AllocationQuota": openai.CodeRateLimitExceeded, "limit_requests": openai.CodeRateLimitExceeded,
			"limit_burst_rate": openai.CodeRateLimitExceeded,
			"ModelNotFound":    openai.CodeModelNotFound, "model_not_found": openai.CodeModelNotFound,
		},
	}
	return provider.Provider{
		Name:              name,
		Fields:            []string{"region"},
		BaseURL:           baseURL,
		CredentialEnv:     "DASHSCOPE_API_KEY",
		CredentialHosts:   slices.Compact(slices.Sorted(maps.Values(hosts))),
		CredentialHeaders: []string{"authorization", "x-dashscope-workspace"},
		Sign:              openaicompat.Bearer,
		DecodeError:       d.DecodeError,
		Chat:              legacy.Functions(openaicompat.New(d)),
		Embedding:         openaicompat.NewEmbedding(openaicompat.Dialect{Vendor: name}),
		Models:            modellist.Models,
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
		return "", fmt.Errorf("is required for the region %q: without one the region must be one of %s", c.GetRegion(),
			strings.Join(known, ", "))
	}
	return "https://" + host + "/compatible-mode/v1", nil
}
