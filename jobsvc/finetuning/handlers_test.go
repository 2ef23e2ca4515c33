package finetuning_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/finetuning"
	"github.com/modelgate/modelgate/jobsvc/store"
)

func idOf(t *testing.T, body string) string {
	var o struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(body), &o))
	require.NotEmpty(t, o.ID, body)
	return o.ID
}

func TestANewJobHasEveryMember(t *testing.T) {
	w := newWorld(t)
	training, validation := w.upload(store.Tenant{}, files.PurposeFineTune, "{}"), w.upload(store.Tenant{},
		files.PurposeFineTune, "{}")
	for name, tc := range map[string]struct{ members, want string }{
		"the least": {`"training_file":"T"`,
			`{"object":"fine_tuning.job","id":"ID","model":"small","created_at":0,"finished_at":null,"fine_tuned_model":null,
			"organization_id":"default","result_files":[],"status":"validating_files","validation_file":null,"training_file":"T",
			"hyperparameters":{"batch_size":"auto","learning_rate_multiplier":"auto","n_epochs":"auto"},"trained_tokens":null,"error":null,
			"user_provided_suffix":null,"seed":1,"estimated_finish":null,"integrations":[],"metadata":null,
			"method":{"type":"supervised","supervised":{"hyperparameters":{}}}}`},
		"all": {`"training_file":"T","validation_file":"V","suffix":"my-Model_2.0","seed":1,"metadata":{"a":"b","c":""},
			"integrations":[{"type":"wandb","wandb":{"project":"p","tags":["x","y"],"entity":"e"}}],
			"method":{"type":"dpo","dpo":{"hyperparameters":{"beta":0.1,"n_epochs":3,"batch_size":"auto"}}}`,
			`{"object":"fine_tuning.job","id":"ID","model":"small","created_at":0,"finished_at":null,"fine_tuned_model":null,
			"organization_id":"default","result_files":[],"status":"validating_files","validation_file":"V","training_file":"T",
			"hyperparameters":{"batch_size":"auto","learning_rate_multiplier":"auto","n_epochs":3},"trained_tokens":null,"error":null,
			"user_provided_suffix":"my-Model_2.0","seed":1,"estimated_finish":null,
			"integrations":[{"type":"wandb","wandb":{"project":"p","name":null,"entity":"e","tags":["x","y"]}}],"metadata":{"a":"b","c":""},
			"method":{"type":"dpo","dpo":{"hyperparameters":{"beta":0.1,"n_epochs":3,"batch_size":"auto"}}}}`},
		"hyperparameters in their older place": {`"training_file":"T","hyperparameters":{"n_epochs":2},"suffix":null,"seed":null,"metadata":{}`,
			`{"object":"fine_tuning.job","id":"ID","model":"small","created_at":0,"finished_at":null,"fine_tuned_model":null,
			"organization_id":"default","result_files":[],"status":"validating_files","validation_file":null,"training_file":"T",
			"hyperparameters":{"batch_size":"auto","learning_rate_multiplier":"auto","n_epochs":2},"trained_tokens":null,"error":null,
			"user_provided_suffix":null,"seed":1,"estimated_finish":null,"integrations":[],"metadata":{},
			"method":{"type":"supervised","supervised":{"hyperparameters":{"n_epochs":2}}}}`},
		"reinforcement": {`"training_file":"T","method":{"type":"reinforcement","reinforcement":{"grader":{"type":"python","source":"<a>"},
			"hyperparameters":{"reasoning_effort":"low","compute_multiplier":0.00001,"eval_samples":"auto"}}}`,
			`{"object":"fine_tuning.job","id":"ID","model":"small","created_at":0,"finished_at":null,"fine_tuned_model":null,
			"organization_id":"default","result_files":[],"status":"validating_files","validation_file":null,"training_file":"T",
			"hyperparameters":{"batch_size":"auto","learning_rate_multiplier":"auto","n_epochs":"auto"},"trained_tokens":null,"error":null,
			"user_provided_suffix":null,"seed":1,"estimated_finish":null,"integrations":[],"metadata":null,
			"method":{"type":"reinforcement","reinforcement":{"grader":{"type":"python","source":"<a>"},
			"hyperparameters":{"reasoning_effort":"low","compute_multiplier":0.00001,"eval_samples":"auto"}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			members := strings.NewReplacer(`"T"`, `"`+training+`"`, `"V"`, `"`+validation+`"`).Replace(tc.members)
			status, body := w.ask(store.Tenant{}, "POST", "/v1/fine_tuning/jobs", `{"model":"small",`+members+`}`)
			require.Equal(t, 200, status, body)
			id := idOf(t, body)
			_, again := w.ask(store.Tenant{}, "GET", "/v1/fine_tuning/jobs/"+id, "")
			require.Equal(t, body, again)

			var got map[string]any
			require.NoError(t, json.Unmarshal([]byte(body), &got))
			require.Positive(t, got["created_at"])
			require.GreaterOrEqual(t, got["seed"], 0.0)
			require.Less(t, got["seed"], float64(1<<31))
			got["created_at"], got["seed"] = 0, 1
			text, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, tc.want, strings.NewReplacer(id, "ID", training, "T", validation, "V").Replace(string(text)))
		})
	}
}

func TestOneFileMayBeTrainedAndValidatedWith(t *testing.T) {
	w := newWorld(t)
	w.trainer.says(success()[3])
	file := w.upload(acme, files.PurposeFineTune, "{}\n")
	status, body := w.ask(acme, "POST", "/v1/fine_tuning/jobs", `{"model":"small","training_file":"`+file+
		`","validation_file":"`+file+`"}`)
	require.Equal(t, 200, status, body)
	require.Equal(t, 1, w.keys(store.Root+"uses/"))
	w.run()
	w.await(idOf(t, body), over)
	require.Zero(t, w.keys(store.Root+"uses/"))
}

// Report 7.
func TestABareModelNameIsResolvedAsOfChat(t *testing.T) {
	w := newWorld(t)
	w.bare = map[string]string{"small-1": "trains/small-1"}
	file := w.upload(acme, files.PurposeFineTune, "{}\n")
	status, body := w.ask(acme, "POST", "/v1/fine_tuning/jobs", `{"model":"small-1","training_file":"`+file+`"}`)
	require.Equal(t, 200, status, body)
	require.Contains(t, body, `"model":"trains/small-1"`)
}

func TestAFaultyJobIsRefused(t *testing.T) {
	w := newWorld(t)
	good, wrong, foreign := w.upload(acme, files.PurposeFineTune, "{}"), w.upload(acme, files.PurposeBatch,
		"{}"), w.upload(other, files.PurposeFineTune, "{}")
	w.hidden["trains/secret"] = true
	pairs := make([]string, 17)
	for i := range pairs {
		pairs[i] = fmt.Sprintf(`"k%d":"v"`, i)
	}
	wandb := `{"type":"wandb","wandb":{"project":"p"}}`
	for name, tc := range map[string]struct{ members, param, code string }{
		"no JSON":                     {`"model"`, "", "invalid_json"},
		"a name twice":                {`"training_file":"T","training_file":"T"`, "training_file", "duplicate_parameter"},
		"no model":                    {`"training_file":"T","model":null`, "model", "missing_required_parameter"},
		"a model of another type":     {`"training_file":"T","model":7`, "model", "invalid_type"},
		"an empty model":              {`"training_file":"T","model":""`, "model", "empty_string"},
		"an unknown model":            {`"training_file":"T","model":"large"`, "model", "model_not_available"},
		"a model the key may not use": {`"training_file":"T","model":"trains/secret"`, "model", "model_not_available"},
		"a provider that cannot":      {`"training_file":"T","model":"never/m"`, "model", "model_not_available"},
		"a name that cannot be kept":  {`"training_file":"T","model":"trains/a b"`, "model", "model_not_available"},
		"no file":                     {``, "training_file", "missing_required_parameter"},
		"an unknown file":             {`"training_file":"file-x"`, "training_file", "invalid_file"},
		"another tenant's file":       {`"training_file":"F"`, "training_file", "invalid_file"},
		"a file of another purpose":   {`"training_file":"W"`, "training_file", "invalid_file_purpose"},
		"a bad validation file": {`"training_file":"T","validation_file":"W"`, "validation_file",
			"invalid_file_purpose"},
		"an unknown parameter": {`"training_file":"T","n_epochs":3`, "n_epochs", "unknown_parameter"},
		"an empty suffix":      {`"training_file":"T","suffix":""`, "suffix", "empty_string"},
		"a long suffix": {`"training_file":"T","suffix":"1234567890123456789"`, "suffix",
			"string_above_max_length"},
		"a suffix with a slash":   {`"training_file":"T","suffix":"a/b"`, "suffix", "invalid_value"},
		"a suffix with a colon":   {`"training_file":"T","suffix":"a:b"`, "suffix", "invalid_value"},
		"a negative seed":         {`"training_file":"T","seed":-1`, "seed", "integer_below_min_value"},
		"a large seed":            {`"training_file":"T","seed":2147483648`, "seed", "integer_above_max_value"},
		"a huge seed":             {`"training_file":"T","seed":1e999`, "seed", "invalid_type"},
		"a seed with a point":     {`"training_file":"T","seed":1.5`, "seed", "invalid_type"},
		"a seed as a string":      {`"training_file":"T","seed":"1"`, "seed", "invalid_type"},
		"a method without a type": {`"training_file":"T","method":{}`, "method.type", "missing_required_parameter"},
		"an unknown method":       {`"training_file":"T","method":{"type":"magic"}`, "method.type", "invalid_value"},
		"a method as a string":    {`"training_file":"T","method":"dpo"`, "method", "invalid_type"},
		"settings of another method": {`"training_file":"T","method":{"type":"dpo","supervised":{}}`, "method.supervised",
			"invalid_value"},
		"no epochs": {`"training_file":"T","method":{"type":"supervised","supervised":{"hyperparameters":{"n_epochs":0}}}`,
			"method.supervised.hyperparameters.n_epochs", "integer_below_min_value"},
		"too many epochs": {`"training_file":"T","hyperparameters":{"n_epochs":51}`, "hyperparameters.n_epochs",
			"integer_above_max_value"},
		"a batch size with a point": {`"training_file":"T","hyperparameters":{"batch_size":1.5}`,
			"hyperparameters.batch_size", "invalid_type"},
		"a multiplier of 0": {`"training_file":"T","hyperparameters":{"learning_rate_multiplier":0}`,
			"hyperparameters.learning_rate_multiplier", "decimal_below_min_value"},
		"neither auto nor a number": {`"training_file":"T","hyperparameters":{"n_epochs":"many"}`,
			"hyperparameters.n_epochs", "invalid_type"},
		"an unknown hyperparameter": {`"training_file":"T","hyperparameters":{"beta":1}`, "hyperparameters.beta",
			"unknown_parameter"},
		"a large beta": {`"training_file":"T","method":{"type":"dpo","dpo":{"hyperparameters":{"beta":2.1}}}`,
			"method.dpo.hyperparameters.beta", "decimal_above_max_value"},
		"both forms": {`"training_file":"T","hyperparameters":{},"method":{"type":"supervised","supervised":{"hyperparameters":{}}}`, "hyperparameters", "invalid_value"},
		"the older form of dpo": {`"training_file":"T","hyperparameters":{},"method":{"type":"dpo"}`,
			"hyperparameters", "invalid_value"},
		"no grader": {`"training_file":"T","method":{"type":"reinforcement","reinforcement":{}}`,
			"method.reinforcement.grader", "missing_required_parameter"},
		"an unknown grader": {`"training_file":"T","method":{"type":"reinforcement","reinforcement":{"grader":{"type":"x"}}}`, "method.reinforcement.grader.type", "invalid_value"},
		"an unknown effort": {`"training_file":"T","method":{"type":"reinforcement","reinforcement":{"grader":{"type":"multi"},"hyperparameters":{"reasoning_effort":"huge"}}}`, "method.reinforcement.hyperparameters.reasoning_effort", "invalid_value"},
		"six integrations": {`"training_file":"T","integrations":[` +
			strings.Join(slices.Repeat([]string{wandb}, 6), ",") + `]`, "integrations", "array_above_max_length"},
		"another integration": {`"training_file":"T","integrations":[{"type":"other"}]`, "integrations[0].type",
			"invalid_value"},
		"an integration's secret": {`"training_file":"T","integrations":[{"type":"wandb","wandb":{"project":"p","api_key":"k"}}]`, "integrations[0].wandb.api_key", "unknown_parameter"},
		"no project": {`"training_file":"T","integrations":[` + wandb + `,{"type":"wandb","wandb":{}}]`,
			"integrations[1].wandb.project", "missing_required_parameter"},
		"no object": {`"training_file":"T","integrations":[{"type":"wandb"}]`, "integrations[0].wandb",
			"missing_required_parameter"},
		"17 pairs": {`"training_file":"T","metadata":{` + strings.Join(pairs, ",") + `}`, "metadata",
			"object_above_max_properties"},
		"a long key": {`"training_file":"T","metadata":{"` + strings.Repeat("k", 65) + `":""}`, "metadata",
			"property_name_above_max_length"},
		"a long value": {`"training_file":"T","metadata":{"k":"` + strings.Repeat("ü", 513) + `"}`,
			"metadata.k", "string_above_max_length"},
		"a value that is a number": {`"training_file":"T","metadata":{"k":1}`, "metadata.k", "invalid_type"},
	} {
		t.Run(name, func(t *testing.T) {
			members := strings.NewReplacer(`"T"`, `"`+good+`"`, `"W"`, `"`+wrong+`"`, `"F"`, `"`+foreign+
				`"`).Replace(tc.members)
			if !strings.Contains(members, `"model"`) {
				members = strings.TrimSuffix(`"model":"small",`+members, ",")
			}
			status, body := w.ask(acme, "POST", "/v1/fine_tuning/jobs", "{"+members+"}")
			require.Equal(t, http.StatusBadRequest, status, body)
			var e struct {
				Error struct{ Param, Code, Type string }
			}
			require.NoError(t, json.Unmarshal([]byte(body), &e))
			require.Equal(t, [3]string{tc.param, tc.code, "invalid_request_error"},
				[3]string{e.Error.Param, e.Error.Code, e.Error.Type}, body)
		})
	}
	require.Empty(t, w.page("/v1/fine_tuning/jobs").Data)
	require.Zero(t, w.keys(store.Root+"uses/"))
}

func TestARefusalNamesTheProvidersThatTrain(t *testing.T) {
	w := newWorld(t)
	file := w.upload(acme, files.PurposeFineTune, "{}")
	_, body := w.ask(acme, "POST", "/v1/fine_tuning/jobs", `{"model":"never/m","training_file":"`+file+`"}`)
	require.Contains(t, body,
		"its provider 'never' does not train models. Choose a model of one that does: plain, trains.")
}

func TestWithoutConfigurationOrGatewayCreationCanBeTriedAgain(t *testing.T) {
	w := newWorld(t)
	body := `{"model":"small","training_file":"` + w.upload(acme, files.PurposeFineTune, "{}") + `"}`
	require.Equal(t, 503, first(w.ask(acme, "POST", "/v1/fine_tuning/jobs", body, "X-Modelgate-Key", "unlucky")))
	w.configure(func(c *config.Config) {})
	w.config = nil
	require.Equal(t, 503, first(w.ask(acme, "POST", "/v1/fine_tuning/jobs", body)))
}

func TestAnIdempotentCreationIsDoneOnce(t *testing.T) {
	w := newWorld(t)
	body := `{"model":"small","training_file":"` + w.upload(acme, files.PurposeFineTune, "{}") + `"}`
	status, one := w.ask(acme, "POST", "/v1/fine_tuning/jobs", body, "Idempotency-Key", "k")
	require.Equal(t, 200, status)
	_, again := w.ask(acme, "POST", "/v1/fine_tuning/jobs", body, "Idempotency-Key", "k")
	require.Equal(t, one, again)
	require.Equal(t, 409, first(w.ask(acme, "POST", "/v1/fine_tuning/jobs", body[:len(body)-1]+`,"seed":1}`,
		"Idempotency-Key", "k")))
	require.Len(t, w.page("/v1/fine_tuning/jobs").Data, 1)
}

func TestAnotherTenantsJobIsNotThere(t *testing.T) {
	w := newWorld(t)
	id, none := w.create(""), finetuning.Kind.NewID()
	for _, as := range []store.Tenant{other, {}, {Organization: "acme"}, {Organization: "acme", Project: "else"}} {
		for _, path := range []string{"GET ", "POST /cancel", "POST /pause", "POST /resume", "GET /events",
			"GET /checkpoints"} {
			method, action, _ := strings.Cut(path, " ")
			status, foreign := w.ask(as, method, "/v1/fine_tuning/jobs/"+id+action, "")
			require.Equal(t, 404, status)
			_, missing := w.ask(as, method, "/v1/fine_tuning/jobs/"+none+action, "")
			require.Equal(t, strings.ReplaceAll(missing, none, id), foreign, path)
			require.Equal(t, `{"error":{"message":"Could not find fine tune: `+id+
				`","type":"invalid_request_error","param":"fine_tune_id","code":"fine_tune_not_found"}}`, foreign)
		}
		_, body := w.ask(as, "GET", "/v1/fine_tuning/jobs", "")
		require.Equal(t, `{"object":"list","data":[],"has_more":false}`, body)
		_, body = w.ask(as, "GET", "/v1/fine_tuning/jobs?after="+id, "")
		require.Equal(t, `{"object":"list","data":[],"has_more":false}`, body)
	}
	require.Equal(t, "validating_files", w.get(id).Status)
}

func TestJobsArePagedAndFiltered(t *testing.T) {
	w := newWorld(t)
	var ids []string // newest first
	for i := range 25 {
		metadata := fmt.Sprintf(`,"metadata":{"odd":"%d","n":"%d"}`, i%2, i)
		if i%5 == 0 {
			metadata = ""
		}
		ids = append([]string{w.create(metadata)}, ids...)
	}
	// those of one millisecond are in any order
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(b, a) })
	of := func(p page) (all []string) {
		for _, d := range p.Data {
			all = append(all, d.ID)
		}
		return all
	}
	p := w.page("/v1/fine_tuning/jobs")
	require.Equal(t, ids[:20], of(p))
	require.True(t, p.HasMore)
	p = w.page("/v1/fine_tuning/jobs?after=" + ids[19])
	require.Equal(t, ids[20:], of(p))
	require.False(t, p.HasMore)
	p = w.page("/v1/fine_tuning/jobs?limit=5&after=" + ids[19])
	require.Equal(t, ids[20:], of(p))
	require.False(t, p.HasMore, "nothing follows")
	p = w.page("/v1/fine_tuning/jobs?limit=100&metadata[odd]=1")
	require.Len(t, p.Data, 10)
	p = w.page("/v1/fine_tuning/jobs?limit=10&metadata[odd]=1")
	require.Len(t, p.Data, 10)
	require.False(t, p.HasMore, "what follows is filtered out")
	require.Len(t, w.page("/v1/fine_tuning/jobs?metadata[odd]=1&metadata[n]=7").Data, 1)
	require.Empty(t, w.page("/v1/fine_tuning/jobs?metadata[odd]=0&metadata[n]=7").Data)
	require.Len(t, w.page("/v1/fine_tuning/jobs?metadata=null").Data, 5)

	for query, param := range map[string]string{"limit=0": "limit", "limit=101": "limit", "limit=x": "limit",
		"after=x": "after", "after=file-1": "after"} {
		status, body := w.ask(acme, "GET", "/v1/fine_tuning/jobs?"+query, "")
		require.Equal(t, 400, status, query)
		require.Contains(t, body, `"param":"`+param+`"`)
	}
}

func TestEventsAndCheckpointsArePaged(t *testing.T) {
	w := newWorld(t)
	report := provider.TuningReport{Status: "cancelled"}
	for i := range 30 {
		report.Events = append(report.Events, provider.TuningEvent{ID: fmt.Sprint(i), CreatedAt: 1700000000 + int64(i),
			Type: "metrics", Message: fmt.Sprint(i)})
		report.Checkpoints = append(report.Checkpoints, provider.TuningCheckpoint{ID: fmt.Sprint(i), CreatedAt: 1700000000,
			Step: int64(i)})
	}
	w.trainer.says(report)
	id := w.create("")
	w.run()
	w.await(id, over)
	path := "/v1/fine_tuning/jobs/" + id
	p := w.page(path + "/events")
	require.Len(t, p.Data, 20)
	require.True(t, p.HasMore)
	require.Equal(t, "The job was cancelled", p.Data[0].Message)
	require.Equal(t, "29", p.Data[1].Message)
	require.Equal(t, int64(1700000029), p.Data[1].CreatedAt)
	p = w.page(path + "/events?after=" + p.Data[19].ID)
	require.Len(t, p.Data, 13)
	require.False(t, p.HasMore)

	p = w.page(path + "/checkpoints")
	require.Len(t, p.Data, 10)
	require.Equal(t, int64(29), p.Data[0].Step)
	require.Equal(t, p.Data[0].ID, *p.FirstID)
	require.True(t, p.HasMore)
	p = w.page(path + "/checkpoints?limit=20&after=" + p.Data[9].ID)
	require.Len(t, p.Data, 20)
	require.False(t, p.HasMore)
	require.Equal(t, 400, first(w.ask(acme, "GET", path+"/events?after=x", "")))
}
