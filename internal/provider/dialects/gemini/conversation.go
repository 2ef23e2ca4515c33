package gemini

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider/private"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// The vendor's names of roles.
const (
	roleUser  = "user"
	roleModel = "model"
)

// filler is said by a user who says nothing: no content may be without parts, and the first one is the user's.
const filler = "."

// thirdGeneration reports whether the model is one that demands the signatures of calls and takes images in their
// results: those that think by level.
func (e *encoder) thirdGeneration() bool {
	return e.can.GetThinking() == configv1.Thinking_LEVEL
}

// conversation builds the system instruction and the contents.
func (e *encoder) conversation() error {
	c, err := turns.Build(e.chat.Messages, turns.Options{ID: sentID, Name: e.names.Use})
	if err != nil {
		return err
	}
	for _, member := range turns.Unsupported(e.chat) {
		if member != turns.UnsupportedDetail {
			e.Drop(member) // the vendor caches by itself
		}
	}
	for _, p := range c.System {
		e.instruct(p.Text)
	}
	if len(c.Turns) == 0 || c.Turns[0].Role != turns.User {
		c.Turns = slices.Insert(c.Turns, 0, turns.Turn{Role: turns.User})
	}
	e.out.Contents = make([]content, 0, len(c.Turns))
	for i := range c.Turns {
		t := &c.Turns[i]
		if t.Role == turns.Assistant {
			e.out.Contents = append(e.out.Contents, content{Role: roleModel, Parts: e.said(t)})
			continue
		}
		parts, err := e.heard(t)
		if err != nil {
			return err
		}
		e.out.Contents = append(e.out.Contents, content{Role: roleUser, Parts: parts})
	}
	if last := len(e.out.Contents) - 1; e.out.Contents[last].Role == roleModel && e.can != nil && e.can.Prefill != nil &&
		!*e.can.Prefill {
		e.out.Contents = append(e.out.Contents, content{Role: roleUser, Parts: []part{{Text: "Continue."}}})
	}
	e.resolution()
	return nil
}

// resolutions are the vendor's names for the details of images.
var resolutions = map[string]string{"low": "MEDIA_RESOLUTION_LOW", "high": "MEDIA_RESOLUTION_HIGH"}

// resolution sets the detail of the images. The vendor has one for all of them together.
func (e *encoder) resolution() {
	if len(e.details) == 0 || e.ownValue("mediaResolution") != nil {
		return
	}
	differs := func(d string) bool { return d != e.details[0] }
	if name := resolutions[e.details[0]]; name != "" && !slices.ContainsFunc(e.details, differs) {
		e.setString("mediaResolution", name)
	} else if slices.ContainsFunc(e.details, func(d string) bool { return resolutions[d] != "" }) {
		e.Drop(turns.UnsupportedDetail)
	}
}

// sentID returns the id that is sent for the client's: none if it is not the vendor's, which finds results by their
// order then, and none for one that was used before.
func sentID(id string, occurrence int) string {
	if occurrence > 1 || strings.HasPrefix(id, madeID) || strings.HasPrefix(id, "fn:") {
		return ""
	}
	return id
}

// said returns the parts of a model's turn.
func (e *encoder) said(t *turns.Turn) []part {
	var parts []part
	first := true
	for i := range t.Said {
		for _, p := range t.Said[i].Parts {
			parts = append(parts, part{Text: p.Text})
		}
		for _, call := range t.Said[i].Calls {
			signed := e.signature(call.Source)
			if first && signed == "" && e.thirdGeneration() {
				signed = private.Unsigned
			}
			first = false
			parts = append(parts, part{FunctionCall: &functionCall{ID: call.ID, Name: call.Name, Args: call.Arguments},
				ThoughtSignature: signed})
		}
	}
	return parts
}

// heard returns the parts of a user's turn: results of calls first, then what else there is.
func (e *encoder) heard(t *turns.Turn) ([]part, error) {
	var parts, apart []part
	for i := range t.Results {
		result, media, err := e.result(&t.Results[i])
		if err != nil {
			return nil, err
		}
		parts, apart = append(parts, result), append(apart, media...)
	}
	parts = append(parts, apart...)
	for i := range t.Parts {
		p, err := e.part(&t.Parts[i])
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		parts = []part{{Text: filler}}
		e.Adjust("messages")
	}
	return parts, nil
}

// result returns the result of a call, and what of it must stand apart: images, for models that take none within.
func (e *encoder) result(r *turns.Result) (part, []part, error) {
	out := &functionResult{ID: r.Call.ID, Name: r.Call.Name}
	if r.NotExecuted {
		out.Response = jsontext.Value(`{"error":"` + turns.NotExecuted + `"}`)
		return part{FunctionResponse: out}, nil, nil
	}
	var texts []string
	var media []part
	for i := range r.Parts {
		p, err := e.part(&r.Parts[i])
		switch {
		case err != nil:
			return part{}, nil, err
		case p.Text != "":
			texts = append(texts, p.Text)
		default:
			media = append(media, p)
		}
	}
	out.Response = resultObject(strings.Join(texts, "\n"))
	if len(media) == 0 || e.thirdGeneration() {
		out.Parts = media
		return part{FunctionResponse: out}, nil, nil
	}
	return part{FunctionResponse: out}, append([]part{{Text: "The result of " + r.Call.Name + " also has this:"}},
		media...), nil
}

// resultObject returns a tool's output as the object that the vendor wants: the output itself if it is one, but for
// one with "$ref", which the vendor would look up among the parts of the result.
func resultObject(output string) jsontext.Value {
	text := bytes.TrimSpace([]byte(output))
	if v := jsontext.Value(text); v.Kind() == '{' && jsonwalk.Strict(v) && !bytes.Contains(text, []byte(`"$ref"`)) {
		return v
	}
	return append(openai.AppendString([]byte(`{"output":`), output), '}')
}
