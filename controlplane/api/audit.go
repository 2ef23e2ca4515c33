package api

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

// auditHandlers show the audit log.
type auditHandlers struct{ *server }

func (h auditHandlers) routes() []route {
	return []route{
		{operation: onAudit(h.audit), scope: authz.AuditRead, tenants: queried},
		{operation: onVerifyAudit(h.verifyAudit), scope: authz.AuditRead, timeout: audit.VerifyTimeout},
		{operation: onAuditSinks(h.auditSinks), scope: authz.AuditRead},
	}
}

func (h auditHandlers) audit(ctx context.Context, asked adminapi.ListOptions) (page adminapi.AuditPage, err error) {
	for _, own := range []string{audit.FilterTenant, audit.FilterAs} {
		if asked.Filters[own] != "" {
			return page, openai.CodeUnknownParameter.On(own, "Unknown parameter: '%s'.", own)
		}
	}
	of := authz.Tenant{Organization: asked.Filters["organization"], Project: asked.Filters["project"]}
	delete(asked.Filters, "organization")
	delete(asked.Filters, "project")
	if of.Organization == "" && of.Project != "" {
		return page, openai.CodeInvalidValue.On("organization",
			"A project needs its organization: two organizations may have projects of one name.")
	}
	if caller, _ := authz.PrincipalOf(ctx); !caller.Tenant.IsAll() {
		of = caller.Tenant
		asked.Filters[audit.FilterAs] = of.String()
	}
	if !of.IsAll() {
		asked.Filters[audit.FilterTenant] = of.String()
	}
	return h.config.Audit.List(ctx, asked)
}

// verifyAudit reads the whole log and says whether it is unchanged.
func (h auditHandlers) verifyAudit(w http.ResponseWriter, r *http.Request) error {
	noted := r.URL.Query()["head"]
	if len(noted) > 1 {
		return givenTwice("head")
	}
	noted = append(noted, "")
	if len(noted[0]) > audit.MaxText {
		return openai.CodeInvalidValue.On("head", "The parameter head must be a hash.")
	}
	leave, err := h.export(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	control := http.NewResponseController(w) // a long log takes longer to read than other answers may take
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Now().Add(audit.VerifyTimeout + writeTimeout))
	found, err := h.config.Audit.Verify(r.Context(), strings.ToLower(strings.TrimSpace(noted[0])))
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, found)
}

func (h auditHandlers) auditSinks(ctx context.Context) (adminapi.AuditSinks, error) {
	out := adminapi.AuditSinks{Items: []adminapi.AuditSinkStatus{}}
	if h.config.Sinks != nil {
		all, err := h.config.Sinks.Sinks(ctx)
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, all...)
	}
	return out, nil
}
