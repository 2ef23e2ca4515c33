package pitfalls

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// vendorMark is in every id that a vendor gives out.
const vendorMark = "VENDORS"

// A batchVendor has OpenAI's own files, batches and fine-tuning jobs. All are done at once.
type batchVendor struct {
	*httptest.Server
	mu      sync.Mutex // guards what follows
	files   map[string]string
	batches map[string]string // by id, the input file's id
}

func newBatchVendor(t *testing.T) *batchVendor {
	v := &batchVendor{files: map[string]string{"file-" + vendorMark + "result": "step,train_loss\n1,0.5\n"},
		batches: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/files", v.upload)
	mux.HandleFunc("GET /v1/files/{id}", v.file)
	mux.HandleFunc("GET /v1/files/{id}/content", v.content)
	mux.HandleFunc("POST /v1/batches", v.create)
	mux.HandleFunc("GET /v1/batches/{id}", v.batch)
	mux.HandleFunc("POST /v1/fine_tuning/jobs", v.tuning)
	mux.HandleFunc("GET /v1/fine_tuning/jobs/{id}", v.tuning)
	mux.HandleFunc("GET /v1/fine_tuning/jobs/{id}/{list}", func(w http.ResponseWriter, r *http.Request) {
		item := fmt.Sprintf(`{"id":"ftevent-%[1]s","object":"fine_tuning.job.event","created_at":1700000000,"level":"info","message":"done","type":"message"}`, vendorMark)
		if r.PathValue("list") == "checkpoints" {
			item = fmt.Sprintf(`{"id":"ftckpt_%[1]s","object":"fine_tuning.job.checkpoint","created_at":1700000000,"fine_tuned_model_checkpoint":"ft:gpt-4o-mini:org-%[1]s::x:ckpt-step-1","step_number":1,"metrics":{"step":1},"fine_tuning_job_id":"ftjob-%[1]s"}`, vendorMark)
		}
		writeText(w, `{"object":"list","data":[`+item+`],"has_more":false}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) { answerText(w, "live") })
	v.Server = httptest.NewServer(mux)
	t.Cleanup(v.Close)
	return v
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text)
}

func (v *batchVendor) upload(w http.ResponseWriter, r *http.Request) {
	f, _, err := r.FormFile("file")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	id := fmt.Sprintf("file-%s%d", vendorMark, len(v.files))
	v.files[id] = string(text)
	writeText(w, fmt.Sprintf(`{"id":%q,"object":"file","status":"processed"}`, id))
}

func (v *batchVendor) file(w http.ResponseWriter, r *http.Request) {
	writeText(w, fmt.Sprintf(`{"id":%q,"object":"file","status":"processed"}`, r.PathValue("id")))
}

func (v *batchVendor) content(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, _ = io.WriteString(w, v.files[r.PathValue("id")])
}

func (v *batchVendor) create(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	v.mu.Lock()
	id := fmt.Sprintf("batch_%s%d", vendorMark, len(v.batches))
	input := gjson.GetBytes(body, "input_file_id").Str
	v.batches[id] = input
	var out bytes.Buffer
	for line := range strings.Lines(v.files[input]) {
		fmt.Fprintf(&out,
			`{"id":"batch_req_%s","custom_id":%q,"response":{"status_code":200,"request_id":"req_1","body":%s},"error":null}`+
				"\n",
			vendorMark, gjson.Get(line, "custom_id").Str,
			openAI.unary(completion{text: "by batch", stop: "stop", usage: counts{prompt: 3, output: 2}}))
	}
	v.files[input+"out"] = out.String()
	v.mu.Unlock()
	v.show(w, id)
}

func (v *batchVendor) batch(w http.ResponseWriter, r *http.Request) { v.show(w, r.PathValue("id")) }

func (v *batchVendor) show(w http.ResponseWriter, id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	input := v.batches[id]
	writeText(w,
		fmt.Sprintf(`{"id":%q,"object":"batch","endpoint":"/v1/chat/completions","input_file_id":%q,"output_file_id":%q,"error_file_id":null,"status":"completed","created_at":1700000000,"request_counts":{"total":1,"completed":1,"failed":0}}`,
			id, input, input+"out"))
}

func (v *batchVendor) tuning(w http.ResponseWriter, _ *http.Request) {
	writeText(w,
		fmt.Sprintf(`{"id":"ftjob-%[1]s","object":"fine_tuning.job","model":"gpt-4o-mini","created_at":1700000000,"finished_at":1700000001,"fine_tuned_model":"ft:gpt-4o-mini:org-%[1]s::x","organization_id":"org-%[1]s","result_files":["file-%[1]sresult"],"status":"succeeded","validation_file":null,"training_file":"file-%[1]s","trained_tokens":10,"hyperparameters":{"n_epochs":1},"error":null}`, vendorMark))
}

func vendorIDs(t *testing.T) {
	v := newBatchVendor(t)
	g := overJobs(t)
	g.Apply(t, &configv1.Provider{Name: "native", Vendor: "openai", Endpoint: v.URL + "/v1", NativeBatches: true,
		Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "credential"}}})
	require.Eventually(t, func() bool { return g.has("native/gpt-4o-mini") == nil }, soon, poll)
	seen := func(path string) string {
		a := g.client.Do(t, http.MethodGet, path, "")
		require.Equal(t, 200, a.Status, "%s: %s", path, a.Body)
		require.NotContains(t, string(a.Body), vendorMark, path)
		require.NotContains(t, fmt.Sprint(a.Header), vendorMark, path)
		return string(a.Body)
	}
	lines, ids := chats("native/gpt-4o-mini", 5)
	b := g.client.Await(t, g.client.Begin(t, chatPath, lines...))
	require.Equal(t, "completed", b.Status, "%+v", b.Errors)
	out, _ := g.requireResults(t, b, ids)
	require.Contains(t, string(out["line-3"].Response.Body), "by batch", "the vendor's own API was used")
	require.Empty(t, g.worker.times())
	seen("/v1/batches/" + b.ID)
	seen("/v1/batches")
	seen("/v1/files")
	seen("/v1/files/" + *b.OutputFileID)
	seen("/v1/files/" + *b.OutputFileID + "/content")

	job := create(t, g.client, "/v1/fine_tuning/jobs", `{"model":"native/gpt-4o-mini","training_file":"`+
		g.client.Upload(t, "fine-tune", examples(12))+`"}`)
	model := tuned(t, g.client, job)
	require.NotContains(t, model, vendorMark)
	shown := seen("/v1/fine_tuning/jobs/" + job)
	for _, path := range []string{"", "/events", "/checkpoints"} {
		seen("/v1/fine_tuning/jobs/" + job + path)
	}
	seen("/v1/fine_tuning/jobs")
	seen("/v1/models")
	seen("/v1/models/" + model)
	for _, file := range gjson.Get(shown, "result_files").Array() {
		require.Contains(t, seen("/v1/files/"+file.Str+"/content"), "train_loss")
	}
	require.Equal(t, 200, g.client.Chat(t, `{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`).Status)
}
