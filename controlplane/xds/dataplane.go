package xds

import (
	"errors"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
)

// The resources of our own, which the ext_proc service subscribes to. Envoy never gets them: they hold credentials.

// resolvedProvider returns what the ext_proc service is told about a provider. Where the credential comes from is none
// of its business.
func resolvedProvider(p *configv1.ResolvedProvider) *configv1.ResolvedProvider {
	out := proto.CloneOf(p)
	out.GetProvider().Credential = nil
	return out
}

func model(m *configv1.Model) ([]Resource, error) {
	if len(m.GetTargets()) == 0 {
		return nil, errors.New("targets: there is none")
	}
	return []Resource{{Role: envoy.RoleExtProc, Name: m.GetName(), Message: m}}, nil
}

// route changes nothing in Envoy, which lets every path in.
func route(r *configv1.Route) ([]Resource, error) {
	if len(r.GetPathPrefix()) < 2 || r.GetPathPrefix()[0] != '/' {
		return nil, errors.New("path_prefix: is not the beginning of a path")
	}
	return []Resource{{Role: envoy.RoleExtProc, Name: r.GetName(), Message: r}}, nil
}

func catalog(c *configv1.Catalog) ([]Resource, error) {
	return []Resource{{Role: envoy.RoleExtProc, Name: c.GetName(), Message: c}}, nil
}

func key(k *configv1.Key) ([]Resource, error) {
	if len(k.GetHash()) == 0 {
		return nil, errors.New("hash: is empty")
	}
	return []Resource{{Role: envoy.RoleExtProc, Name: k.GetName(), Message: k}}, nil
}

func settings(s *configv1.Settings) ([]Resource, error) {
	if len(s.GetKeyPepper()) == 0 {
		return nil, errors.New("key_pepper: is empty")
	}
	return []Resource{{Role: envoy.RoleExtProc, Name: s.GetName(), Message: s}}, nil
}
