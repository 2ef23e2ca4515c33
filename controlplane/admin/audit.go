package admin

import (
	"context"
	"net/http"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/httpapi"
)

func (s *server) audit(w http.ResponseWriter, r *http.Request) error {
	asked, err := optionsOf(r)
	if err != nil {
		return err
	}
	for _, own := range []string{audit.FilterTenant, audit.FilterAs} {
		if asked.Filters[own] != "" {
			return openai.CodeUnknownParameter.On(own, "Unknown parameter: '%s'.", own)
		}
	}
	of := authz.Tenant{Organization: asked.Filters["organization"], Project: asked.Filters["project"]}
	delete(asked.Filters, "organization")
	delete(asked.Filters, "project")
	if of.Organization == "" && of.Project != "" {
		return openai.CodeInvalidValue.On("organization",
			"A project needs its organization: two organizations may have projects of one name.")
	}
	if caller, _ := authz.PrincipalOf(r.Context()); !caller.Tenant.IsAll() {
		of = caller.Tenant
		asked.Filters[audit.FilterAs] = of.String()
	}
	if !of.IsAll() {
		asked.Filters[audit.FilterTenant] = of.String()
	}
	page, err := s.config.Audit.List(r.Context(), asked)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, page)
}

// verifyAudit reads the whole log and says whether it is what was written.
func (s *server) verifyAudit(w http.ResponseWriter, r *http.Request) error {
	noted := r.URL.Query()["head"]
	if len(noted) > 1 {
		return givenTwice("head")
	}
	noted = append(noted, "")
	if len(noted[0]) > audit.MaxText {
		return openai.CodeInvalidValue.On("head", "The parameter head must be a hash.")
	}
	leave, err := s.export(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	control := http.NewResponseController(w) // a long log takes longer to read than other answers may take
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Now().Add(audit.VerifyTimeout + writeTimeout))
	found, err := s.config.Audit.Verify(r.Context(), strings.ToLower(strings.TrimSpace(noted[0])))
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, found)
}

// Sinks are where the audit log is delivered. It must be safe for concurrent use.
type Sinks interface {
	// Sinks returns how far it was delivered to each, by name.
	Sinks(ctx context.Context) ([]adminapi.AuditSinkStatus, error)
}

func (s *server) auditSinks(w http.ResponseWriter, r *http.Request) error {
	out := adminapi.AuditSinks{Items: []adminapi.AuditSinkStatus{}}
	if s.config.Sinks != nil {
		all, err := s.config.Sinks.Sinks(r.Context())
		if err != nil {
			return err
		}
		out.Items = append(out.Items, all...)
	}
	return httpapi.WriteJSON(w, http.StatusOK, out)
}

// note writes into the audit log who did what with something that is not an object of the configuration. People of the
// tenants that it is about see the entry.
func (s *server) note(ctx context.Context, action, kind, name, what string, about ...authz.Tenant) error {
	p, _ := authz.PrincipalOf(ctx)
	return s.config.Audit.Audit(ctx, adminapi.AuditEntry{Actor: p.Name, Role: p.Role, Address: p.Address, Action: action,
		Kind: kind, Name: name, Diff: what, RequestID: authz.RequestIDOf(ctx), Tenants: audit.ViewsOf(p, about)})
}
