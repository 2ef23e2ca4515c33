package controlplane

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	api "github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/compile"
	"github.com/modelgate/modelgate/internal/secret"
)

// settings are the secrets that the ext_proc service and the job service need once, with the decision whether
// responses are stored, guardrails and their checkers, policies, caches, and the issuers of tokens. What has not
// changed is the same message, so that it is not published again.
type settings struct {
	key       []byte // under which responses are sealed
	last      *configv1.Settings
	responses *configv1.ResponseStore // as it was last published
	jobs      *configv1.JobSecrets
}

func newSettings(root *secret.Root) *settings {
	return &settings{key: root.ResponseKey(), last: &configv1.Settings{Name: "default", KeyPepper: root.KeyPepper()},
		jobs: &configv1.JobSecrets{Name: "default", CarrierKey: api.NewCarrierKey(root.KeyPepper()).Bytes()}}
}

// of returns the settings under a configuration's JobServices, with their other parts, and the job service's part
// about stored responses. They are nil if there are none.
func (s *settings) of(services []*configv1.JobService, with *configv1.Settings) (*configv1.Settings,
	*configv1.ResponseStore) {
	var stored *configv1.ResponseStore
	if len(services) > 0 && services[0].GetStoredResponses() != nil { // there is at most one
		stored = s.stored(services[0].GetStoredResponses().KeptFor())
	}
	with.Name, with.KeyPepper, with.StoresResponses = s.last.GetName(), s.last.GetKeyPepper(), stored != nil
	with.Guardrails, with.Policies = compile.InForce(with.Guardrails), compile.InForce(with.Policies)
	with.ResponseCaches = compile.InForce(with.ResponseCaches)
	s.last = unchanged(s.last, with)
	return s.last, stored
}

func (s *settings) stored(retention time.Duration) *configv1.ResponseStore {
	if s.responses == nil || s.responses.GetRetention().AsDuration() != retention {
		s.responses = &configv1.ResponseStore{Name: "default", Retention: durationpb.New(retention), Key: s.key}
	}
	return s.responses
}
