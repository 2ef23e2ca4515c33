package zai

import (
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/openaicompat"
)

// codes are OpenAI's codes for the vendor's, which are numbers: https://docs.z.ai/api-reference/api-code
var codes = map[string]string{
	"1211": "model_not_found", "1261": "context_length_exceeded", "1301": "content_filter", "1113": "insufficient_quota",
}

// decodeError reads the vendor's error. Its status is the same for a rate limit and an empty account, and for a model that
// does not exist and any other mistake: the code tells them apart.
func decodeError(status int, header http.Header, body []byte) *openai.Error {
	code := codes[gjson.GetBytes(body, "error.code").String()]
	switch code {
	case "insufficient_quota":
		status = http.StatusPaymentRequired
	case "model_not_found":
		status = http.StatusNotFound
	}
	e := openaicompat.DecodeError(status, header, body)
	if code != "" {
		e.Code = code
	}
	return e
}
