package dialects

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound"
)

// Misdirected returns an error about a body that lacks something. If the body is one for other operations, it says so.
func Misdirected(o *inbound.Operation, body []byte, e *openai.Error) *openai.Error {
	if e.Code != openai.CodeMissingRequiredParameter || o.Subject == "" || gjson.GetBytes(body, o.Subject).Exists() {
		return e
	}
	for _, subject := range subjects {
		if !gjson.GetBytes(body, subject.member).Exists() {
			continue
		}
		told := *e
		told.Message += " The body has '" + subject.member + "', as requests to " + subject.paths + " do."
		return &told
	}
	return e
}

// A subject is the member that the requests to some paths are about.
type subject struct{ member, paths string }

var subjects = bySubject(all)

func bySubject(dialects []*inbound.Dialect) []subject {
	var found []subject
	for _, d := range dialects {
		for _, o := range d.Operations {
			path := cmp.Or(o.Path, d.Prefix+"models/MODEL:"+o.Name)
			i := slices.IndexFunc(found, func(s subject) bool { return s.member == o.Subject })
			switch {
			case o.Subject == "" || o.Free:
			case i < 0:
				found = append(found, subject{o.Subject, path})
			case !strings.HasSuffix(found[i].paths, path):
				found[i].paths += " or " + path
			}
		}
	}
	return found
}
