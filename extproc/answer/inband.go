package answer

import (
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/sse"
)

// FailureOf returns the error of an answer that passes and has no content so far; nil: there is none.
func FailureOf(said metering.Report, complete bool, body []byte) error {
	switch {
	case said.Said:
	case said.Failed:
		return errorIn(body)
	case !complete:
		return provider.ErrTruncated
	}
	return nil
}

// errorIn returns the error in an answer of OpenAI's Responses API that passes: in a document, or in events.
func errorIn(body []byte) error {
	for data := range sse.Data(body) {
		of := gjson.ParseBytes(data)
		switch {
		case of.Get("response.error").IsObject():
			return openaicompat.Dialect{}.InBand([]byte(of.Get("response").Raw))
		case of.Get("type").Str == "error", of.Get("error").IsObject():
			return openaicompat.Dialect{}.InBand(data)
		}
	}
	return openaicompat.Dialect{}.InBand(body)
}
