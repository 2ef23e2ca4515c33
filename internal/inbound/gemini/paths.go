package gemini

import (
	"net/url"
	"strings"
)

// Prefix begins the paths of the API's beta version. The stable version has the prefix of OpenAI's API.
const Prefix = "/v1beta/"

// models are the paths of the models, below which their methods are. The name of a model may have slashes.
var models = [...]string{Prefix + "models/", "/v1/models/"}

// split returns the model and the method of a path.
func split(path string) (model, method string, ok bool) {
	rest := path
	for _, prefix := range models {
		if rest, ok = strings.CutPrefix(path, prefix); ok {
			break
		}
	}
	colon := strings.LastIndexByte(rest, ':')
	if !ok || colon < 1 {
		return "", "", false
	}
	model, method = rest[:colon], rest[colon+1:]
	if plain, err := url.PathUnescape(model); err == nil {
		model = plain
	}
	return model, method, true
}

// Beta returns the path of the beta version for a path with a method. Both versions are one endpoint. It differs
// from OpenAI's list of models.
func Beta(path string) string {
	if rest, ok := strings.CutPrefix(path, "/v1/"); ok {
		return Prefix + rest
	}
	return path
}
