package responses

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/forms"
	"github.com/modelgate/modelgate/internal/provider/reasoning"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// writtenFor are the vendors that clients of the API write for. What they send to one of them alone stays as it is.
var writtenFor = []string{"openai", "azure"}

// fitted returns a body with an effort that the model has and users' ids that the vendor takes, and the names of what
// was changed. Coding agents ask every model for the same effort.
func fitted(body []byte, r *openai.NativeRequest, t provider.Target, vendor string) ([]byte, []string) {
	if !t.Mixed && slices.Contains(writtenFor, vendor) {
		return body, nil
	}
	var edits []openai.Edit
	var adjusted []string
	if options, changed := withEffort(r.Members().Get("reasoning"), t); changed {
		edits, adjusted = append(edits, openai.Edit{Name: "reasoning", Value: options}), []string{"reasoning.effort"}
	}
	form := forms.Of(vendor).User
	for _, name := range [...]string{"user", "safety_identifier"} {
		v := r.Members().Get(name)
		if form == (forms.Form{}) || v.Kind() != '"' {
			continue
		}
		if id := openai.Unquote(v); id != "" && !form.Takes(id) {
			edits = append(edits, openai.Edit{Name: name, Value: openai.AppendString(nil, form.Fit(id))})
		}
	}
	if len(edits) == 0 {
		return body, nil
	}
	return schema.AppendEdited(nil, body, edits...), adjusted
}

// withEffort returns the options of reasoning with the nearest effort that the model has, or nil for a model that does
// not reason. It reports whether that differs from what the client asks for.
func withEffort(options jsontext.Value, t provider.Target) (jsontext.Value, bool) {
	asked := gjson.GetBytes(options, "effort").Str
	effort, reasons := reasoning.Fit(asked, t.Can())
	switch {
	case asked == "" || effort == asked:
		return options, false
	case !reasons:
		return nil, true
	}
	ms := schema.Without(schema.Members(options), "effort")
	if effort != "" {
		ms = append(ms, schema.Member{Name: "effort", Value: openai.AppendString(nil, effort)})
	}
	return schema.AppendObject(nil, ms), true
}
