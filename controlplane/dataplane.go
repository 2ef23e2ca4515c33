package controlplane

import (
	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/snapshot"
	"github.com/modelgate/modelgate/envoy"
)

// clients returns how those stand that are connected to this control plane.
func (s *Server) clients() []adminapi.DataPlaneClient {
	all := []adminapi.DataPlaneClient{}
	for _, c := range s.publisher.Clients() {
		all = append(all, adminapi.DataPlaneClient{
			Node: c.Node, Role: shortRole(c.Role), Version: c.Version, Revision: c.Revision, ConnectedAt: c.ConnectedAt,
			Health: health(c), Error: c.Refused,
		})
	}
	return all
}

func health(c snapshot.Client) string {
	switch {
	case c.Refused != "":
		return adminapi.HealthRefused
	case c.Behind:
		return adminapi.HealthBehind
	}
	return adminapi.HealthOK
}

// shortRole returns the API's name of a role.
func shortRole(role string) string {
	switch role {
	case envoy.RoleEnvoy:
		return "envoy"
	case envoy.RoleExtProc:
		return "extproc"
	case envoy.RoleJobs:
		return "jobs"
	}
	return role
}
