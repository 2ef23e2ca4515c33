package finetuning

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"

	"github.com/modelgate/modelgate/internal/provider"
)

// maxBody bounds a request to create a job, in bytes. The largest is a grader's source; with every character escaped it is
// six times as long, and still fits into a record.
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

// A request is what a client creates a job with, checked for all that can be told from it alone.
type request struct {
	model, training, validation string
	suffix                      string
	seed                        *int64
	method                      Method
	integrations                json.RawMessage
	metadata                    map[string]string
}

// parse reads a request.
func parse(body []byte, maxSuffix int) (*request, error) {
	o, err := readObject(body)
	if err != nil {
		return nil, err
	}
	r := &request{model: o.required("model", maxID), training: o.required("training_file", maxID), validation: o.text("validation_file", maxID)}
	r.suffix = o.text("suffix", maxSuffix)
	// A colon or a slash would make another part of the model's name.
	if !suffixes.MatchString(r.suffix) {
		o.fail("suffix", "invalid_value", "Invalid 'suffix': '%s' becomes a part of the model's name. Use letters, digits and ._-@+ only.", r.suffix)
	}
	if v, ok := o.take("seed"); ok {
		seed := int64(o.number("seed", v, span{low: 0, high: maxSeed, whole: true}))
		r.seed = &seed
	}
	r.method = readMethod(o)
	r.integrations = readIntegrations(o)
	r.metadata = o.metadata()
	o.done()
	return r, o.err
}

const (
	supervised    = "supervised"
	dpo           = "dpo"
	reinforcement = "reinforcement"
)

// readMethod takes method, or what it was before there were several: hyperparameters.
func readMethod(o *object) Method {
	older := o.object("hyperparameters")
	m := o.object("method")
	if m == nil {
		return Method{Type: supervised, Hyperparameters: readHyperparameters(older, supervised)}
	}
	method := Method{Type: m.oneOf("type", supervised, dpo, reinforcement)}
	for _, name := range []string{supervised, dpo, reinforcement} {
		if name != method.Type && m.has(name) {
			o.fail("method."+name, "invalid_value", "'method.%s' is only allowed when 'method.type' is '%s'.", name, name)
		}
	}
	settings := m.object(method.Type)
	inner := settings.object("hyperparameters")
	if inner != nil && older != nil {
		o.fail("hyperparameters", "invalid_value", "'hyperparameters' is the older form of '%shyperparameters'. Send only one of the two.", settings.path)
	}
	if inner == nil && older != nil && method.Type != supervised {
		o.fail("hyperparameters", "invalid_value", "'hyperparameters' is of supervised fine-tuning. Use 'method.%s.hyperparameters'.", method.Type)
	}
	if inner == nil {
		inner = older
	}
	method.Hyperparameters = readHyperparameters(inner, method.Type)
	if method.Type == reinforcement {
		method.Grader = readGrader(m, settings)
	}
	settings.done()
	m.done()
	return method
}

// readGrader takes the grader, of which the provider knows more than its type.
func readGrader(method, settings *object) json.RawMessage {
	if !settings.has("grader") {
		method.missing(reinforcement + ".grader")
		return nil
	}
	text, _ := settings.take("grader")
	settings.objectOf(settings.path+"grader", text).oneOf("type", "string_check", "text_similarity", "python", "score_model", "label_model", "multi")
	return json.RawMessage(text)
}

// readHyperparameters takes numbers and "auto".
func readHyperparameters(o *object, method string) provider.Hyperparameters {
	if o == nil {
		return nil
	}
	h := provider.Hyperparameters{}
	spans := spansOf(method)
	for _, name := range slices.Sorted(maps.Keys(spans)) {
		v, ok := o.take(name)
		if !ok {
			continue
		}
		h[name] = json.RawMessage(v)
		switch {
		case string(v) == `"auto"`:
		case v.Kind() != '0':
			o.wrongType(o.path+name, "'auto' or a number", v)
		default:
			o.number(o.path+name, v, spans[name])
		}
	}
	if method == reinforcement && o.has("reasoning_effort") {
		h["reasoning_effort"] = json.RawMessage(o.members["reasoning_effort"])
		o.oneOf("reasoning_effort", "default", "low", "medium", "high")
	}
	o.done()
	return h
}

// spansOf are the hyperparameters of a method. OpenAI itself has no learning_rate and no training_steps: other providers have
// them in place of a multiplier and of epochs, and a provider that lacks one refuses the job.
func spansOf(method string) map[string]span {
	spans := map[string]span{
		"batch_size":               {low: 1, high: 256, whole: true},
		"learning_rate_multiplier": {low: 0, high: math.MaxFloat64, above: true},
		"n_epochs":                 {low: 1, high: 50, whole: true},
	}
	switch method {
	case dpo:
		spans["beta"] = span{low: 0, high: 2, above: true}
	case reinforcement:
		spans["compute_multiplier"] = span{low: 0.00001, high: 10}
		spans["eval_interval"] = span{low: 1, high: math.MaxInt32, whole: true}
		spans["eval_samples"] = span{low: 1, high: math.MaxInt32, whole: true}
	}
	if method != reinforcement {
		spans["learning_rate"] = span{low: 0, high: 1, above: true}
		spans["training_steps"] = span{low: 1, high: math.MaxInt32, whole: true}
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

// readIntegrations takes the integrations and returns them as OpenAI's array, or nil where there are none.
func readIntegrations(o *object) json.RawMessage {
	var all []integration
	for i, v := range o.array("integrations", maxIntegrations) {
		at := fmt.Sprintf("integrations[%d]", i)
		one := o.objectOf(at, v)
		if one.required("type", maxID) != "wandb" {
			o.fail(at+".type", "invalid_value", "Invalid value for '%s.type'. The supported value is 'wandb'.", at)
		}
		if !one.has("wandb") {
			one.missing("wandb")
		}
		all = append(all, integration{"wandb", readWandb(one.object("wandb"))})
		one.done()
	}
	if len(all) == 0 {
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil && o.err == nil {
		o.err = err
	}
	return text
}

func readWandb(o *object) wandb {
	if o == nil {
		return wandb{}
	}
	w := wandb{Project: o.required("project", maxLabel), Name: optional(o.text("name", maxLabel)), Entity: optional(o.text("entity", maxLabel))}
	for i, tag := range o.array("tags", maxTags) {
		w.Tags = append(w.Tags, o.textOf(fmt.Sprintf("%stags[%d]", o.path, i), tag, 1, maxTag))
	}
	o.done()
	return w
}
