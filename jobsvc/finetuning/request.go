package finetuning

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/rest"
)

// maxBody bounds a request to create a job, in bytes. The largest is a grader's source; with every character escaped
// it is six times as long, and still fits into a record.
const maxBody = 100 << 10

const (
	maxID           = 256
	maxIntegrations = 5
	maxTags         = 50
	maxTag          = 64
	maxLabel        = 256 // of Weights & Biases' names
	maxSeed         = 1<<31 - 1
)

// suffixes are what may stand in a model's name.
var suffixes = regexp.MustCompile(`^[A-Za-z0-9._@+-]*$`)

// A request is a client's request to create a job, after the checks that need nothing else.
type request struct {
	model, training, validation string
	suffix                      string
	seed                        *int64
	method                      Method
	integrations                json.RawMessage
	metadata                    map[string]string
}

// parse reads a request.
func parse(o *rest.Object, maxSuffix int) (*request, error) {
	r := &request{model: o.Required("model", maxID), training: o.Required("training_file", maxID),
		validation: o.Text("validation_file", maxID)}
	r.suffix = o.Text("suffix", maxSuffix)
	// A colon or a slash would make another part of the model's name.
	if !suffixes.MatchString(r.suffix) {
		o.Fail("suffix", openai.CodeInvalidValue,
			"Invalid 'suffix': '%s' becomes a part of the model's name. Use letters, digits and ._-@+ only.", r.suffix)
	}
	if v, ok := o.Take("seed"); ok {
		seed := int64(o.Number("seed", v, rest.Span{Low: 0, High: maxSeed, Whole: true}))
		r.seed = &seed
	}
	r.method = readMethod(o)
	r.integrations = readIntegrations(o)
	r.metadata = o.Metadata()
	o.Done()
	return r, o.Err()
}

const (
	supervised    = "supervised"
	dpo           = "dpo"
	reinforcement = "reinforcement"
)

// readMethod takes method, or what it was before there were several: hyperparameters.
func readMethod(o *rest.Object) Method {
	older := o.Object("hyperparameters")
	m := o.Object("method")
	if m == nil {
		return Method{Type: supervised, Hyperparameters: readHyperparameters(older, supervised)}
	}
	method := Method{Type: m.OneOf("type", supervised, dpo, reinforcement)}
	for _, name := range []string{supervised, dpo, reinforcement} {
		if name != method.Type && m.Has(name) {
			o.Fail("method."+name, openai.CodeInvalidValue, "'method.%s' is only allowed when 'method.type' is '%s'.", name,
				name)
		}
	}
	settings := m.Object(method.Type)
	inner := settings.Object("hyperparameters")
	if inner != nil && older != nil {
		o.Fail("hyperparameters", openai.CodeInvalidValue,
			"'hyperparameters' is the older form of '%shyperparameters'. Send only one of the two.", settings.Path)
	}
	if inner == nil && older != nil && method.Type != supervised {
		o.Fail("hyperparameters", openai.CodeInvalidValue,
			"'hyperparameters' is of supervised fine-tuning. Use 'method.%s.hyperparameters'.", method.Type)
	}
	if inner == nil {
		inner = older
	}
	method.Hyperparameters = readHyperparameters(inner, method.Type)
	if method.Type == reinforcement {
		method.Grader = readGrader(m, settings)
	}
	settings.Done()
	m.Done()
	return method
}

// readGrader takes the grader. Only the provider knows more than its type.
func readGrader(method, settings *rest.Object) json.RawMessage {
	if !settings.Has("grader") {
		method.Missing(reinforcement + ".grader")
		return nil
	}
	text, _ := settings.Take("grader")
	settings.ObjectOf(settings.Path+"grader", text).OneOf("type", "string_check", "text_similarity", "python",
		"score_model", "label_model", "multi")
	return json.RawMessage(text)
}

// readHyperparameters takes numbers and "auto".
func readHyperparameters(o *rest.Object, method string) provider.Hyperparameters {
	if o == nil {
		return nil
	}
	h := provider.Hyperparameters{}
	spans := spansOf(method)
	for _, name := range slices.Sorted(maps.Keys(spans)) {
		v, ok := o.Take(name)
		if !ok {
			continue
		}
		h[name] = json.RawMessage(v)
		switch {
		case string(v) == `"auto"`:
		case v.Kind() != '0':
			o.WrongType(o.Path+name, "'auto' or a number", v)
		default:
			o.Number(o.Path+name, v, spans[name])
		}
	}
	if method == reinforcement && o.Has("reasoning_effort") {
		h["reasoning_effort"] = openai.AppendString(nil, o.OneOf("reasoning_effort", "default", "low", "medium", "high"))
	}
	o.Done()
	return h
}

// spansOf are the hyperparameters of a method. OpenAI itself has no learning_rate and no training_steps: other
// providers have them in place of a multiplier and of epochs, and a provider that lacks one refuses the job.
func spansOf(method string) map[string]rest.Span {
	spans := map[string]rest.Span{
		"batch_size":               {Low: 1, High: 256, Whole: true},
		"learning_rate_multiplier": {Low: 0, High: math.MaxFloat64, Above: true},
		"n_epochs":                 {Low: 1, High: 50, Whole: true},
	}
	switch method {
	case dpo:
		spans["beta"] = rest.Span{Low: 0, High: 2, Above: true}
	case reinforcement:
		spans["compute_multiplier"] = rest.Span{Low: 0.00001, High: 10}
		spans["eval_interval"] = rest.Span{Low: 1, High: math.MaxInt32, Whole: true}
		spans["eval_samples"] = rest.Span{Low: 1, High: math.MaxInt32, Whole: true}
	}
	if method != reinforcement {
		spans["learning_rate"] = rest.Span{Low: 0, High: 1, Above: true}
		spans["training_steps"] = rest.Span{Low: 1, High: math.MaxInt32, Whole: true}
	}
	return spans
}

// A wandb is the object of an integration with Weights & Biases.
type wandb struct {
	Project string   `json:"project"`
	Name    *string  `json:"name"`
	Entity  *string  `json:"entity"`
	Tags    []string `json:"tags,omitempty"`
}

type integration struct {
	Type  string `json:"type"`
	Wandb wandb  `json:"wandb"`
}

// readIntegrations takes the integrations and returns them as OpenAI's array, or nil if there are none.
func readIntegrations(o *rest.Object) json.RawMessage {
	var all []integration
	for i, v := range o.Array("integrations", maxIntegrations) {
		at := fmt.Sprintf("integrations[%d]", i)
		one := o.ObjectOf(at, v)
		if one.Required("type", maxID) != "wandb" {
			o.Fail(at+".type", openai.CodeInvalidValue, "Invalid value for '%s.type'. The supported value is 'wandb'.", at)
		}
		if !one.Has("wandb") {
			one.Missing("wandb")
		}
		all = append(all, integration{"wandb", readWandb(one.Object("wandb"))})
		one.Done()
	}
	if len(all) == 0 {
		return nil
	}
	text, _ := json.Marshal(all) // they are texts
	return text
}

func readWandb(o *rest.Object) wandb {
	if o == nil {
		return wandb{}
	}
	w := wandb{Project: o.Required("project", maxLabel), Name: optional(o.Text("name", maxLabel)),
		Entity: optional(o.Text("entity", maxLabel))}
	for i, tag := range o.Array("tags", maxTags) {
		w.Tags = append(w.Tags, o.TextOf(fmt.Sprintf("%stags[%d]", o.Path, i), tag, 1, maxTag))
	}
	o.Done()
	return w
}
