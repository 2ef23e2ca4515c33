package controlplane

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/secret"
)

// settings are the secrets that the ext_proc service and the job service need once, with the decision whether
// responses are stored. What has not changed is the same message, so that it is not published again.
type settings struct {
	key       []byte // under which responses are sealed
	without   *configv1.Settings
	storing   *configv1.Settings
	responses *configv1.ResponseStore // as it was last published
}

func newSettings(root *secret.Root) *settings {
	const name = "default"
	return &settings{
		key:     root.ResponseKey(),
		without: &configv1.Settings{Name: name, KeyPepper: root.KeyPepper()},
		storing: &configv1.Settings{Name: name, KeyPepper: root.KeyPepper(), StoresResponses: true},
	}
}

// of returns the settings under a configuration's JobServices, of which there is at most one, and what the job service
// is told about stored responses: nil if there are none.
func (s *settings) of(services []*configv1.JobService) (*configv1.Settings, *configv1.ResponseStore) {
	if len(services) == 0 || services[0].GetStoredResponses() == nil {
		return s.without, nil
	}
	return s.storing, s.stored(services[0].GetStoredResponses().KeptFor())
}

func (s *settings) stored(retention time.Duration) *configv1.ResponseStore {
	if s.responses == nil || s.responses.GetRetention().AsDuration() != retention {
		s.responses = &configv1.ResponseStore{Name: "default", Retention: durationpb.New(retention), Key: s.key}
	}
	return s.responses
}
