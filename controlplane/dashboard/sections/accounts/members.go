package accounts

import (
	"fmt"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// membershipsOf reads memberships as people write them, one in a line: "acme/web MEMBER".
func membershipsOf(text string) ([]*configv1.Membership, error) {
	var all []*configv1.Membership
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		role := configv1.Role_ROLE_UNSPECIFIED
		if len(words) == 2 {
			role = configv1.Role(configv1.Role_value[strings.ToUpper(words[1])])
		}
		if role == configv1.Role_ROLE_UNSPECIFIED {
			return nil, openai.CodeInvalidValue.On("memberships",
				"Each line of the memberships must be an organization, or organization/project, and a role, such as acme/web MEMBER. %.80q is not.",
				strings.TrimSpace(line))
		}
		organization, project, _ := strings.Cut(words[0], "/")
		all = append(all, &configv1.Membership{Organization: organization, Project: project, Role: role})
	}
	return all, nil
}

// membershipLines writes memberships as membershipsOf reads them.
func membershipLines(all []*configv1.Membership) string {
	var lines []string
	for _, m := range all {
		tenant := authz.Tenant{Organization: m.GetOrganization(), Project: m.GetProject()}
		lines = append(lines, fmt.Sprintf("%s %s", tenant, m.GetRole()))
	}
	return strings.Join(lines, "\n")
}
