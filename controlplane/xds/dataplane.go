package xds

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
)

// The gateway's own resources, for the ext_proc service and the job service. Envoy never gets them, because they have
// credentials. The job service gets only those for its webhooks and for stored responses.

// resolvedProvider returns a provider's resource for the ext_proc service, without the source of its credential.
func resolvedProvider(p *configv1.ResolvedProvider) *configv1.ResolvedProvider {
	out := proto.CloneOf(p)
	out.GetProvider().Credential = nil
	return out
}

func model(m *configv1.Model) ([]Resource, error) {
	if len(m.GetTargets()) == 0 {
		return nil, errors.New("targets: there is none")
	}
	return []Resource{
		{Role: envoy.RoleExtProc, Name: m.GetName(), Message: m},
		{Role: envoy.RoleJobs, Name: m.GetName(), Message: m},
	}, nil
}

// route builds nothing for Envoy, which accepts every path.
func route(r *configv1.Route) ([]Resource, error) {
	if len(r.GetPathPrefix()) < 2 || r.GetPathPrefix()[0] != '/' {
		return nil, errors.New("path_prefix: is not the beginning of a path")
	}
	return []Resource{{Role: envoy.RoleExtProc, Name: r.GetName(), Message: r}}, nil
}

// webhook returns nothing for a disabled one.
func webhook(w *configv1.Webhook) ([]Resource, error) {
	if w.GetDisabled() {
		return nil, nil
	}
	if err := configv1.CheckWebhookSecret(w.GetSecret().GetValue()); err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	return []Resource{{Role: envoy.RoleJobs, Name: w.GetName(), Message: w}}, nil
}

func modelListing(l *configv1.Listing) ([]Resource, error) {
	return []Resource{{Role: envoy.RoleExtProc, Name: l.GetName(), Message: l}}, nil
}

func catalog(c *configv1.Catalog) ([]Resource, error) {
	return []Resource{
		{Role: envoy.RoleExtProc, Name: c.GetName(), Message: c},
		{Role: envoy.RoleJobs, Name: c.GetName(), Message: c},
	}, nil
}

// CheckKey returns the reason why the ext_proc service would refuse a key, which is sent unchanged.
func CheckKey(k *configv1.Key) error {
	if k.GetName() == "" {
		return errors.New("has no name")
	}
	if err := k.CheckHashes(); err != nil {
		return err
	}
	return validText(k)
}

func settings(s *configv1.Settings) ([]Resource, error) {
	if len(s.GetKeyPepper()) == 0 {
		return nil, errors.New("key_pepper: is empty")
	}
	return []Resource{{Role: envoy.RoleExtProc, Name: s.GetName(), Message: s}}, nil
}

func jobSecrets(s *configv1.JobSecrets) ([]Resource, error) {
	return []Resource{{Role: envoy.RoleJobs, Name: s.GetName(), Message: s}}, nil
}

func responseStore(s *configv1.ResponseStore) ([]Resource, error) {
	if len(s.GetKey()) == 0 {
		return nil, errors.New("key: is empty")
	}
	return []Resource{{Role: envoy.RoleJobs, Name: s.GetName(), Message: s}}, nil
}
