package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
	"github.com/modelgate/modelgate/internal/usage"
)

// StatusCmd is the command status.
type StatusCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Watch bool          `short:"w" help:"Show the state again and again, until you press Ctrl-C."`
	Every time.Duration `default:"2s" help:"How often --watch looks (${default})."`
}

// Help is shown below the flags' summary.
func (StatusCmd) Help() string {
	return `The command exits with 1 if it finds a problem. modelgate doctor checks more and explains the remedies.

Example:
  modelgate status --data data -o json`
}

// A StatusReport is how a gateway is.
type StatusReport struct {
	OK bool `json:"ok"`
	// Problems are what is wrong, for people.
	Problems []string `json:"problems"`
	// Notes are what a person should look at, although nothing is wrong.
	Notes []string `json:"notes,omitempty"`
	// Admin is the URL of the admin API.
	Admin    string                     `json:"admin"`
	Ready    string                     `json:"ready"` // ok, or why it is not
	Version  string                     `json:"version,omitempty"`
	Revision int64                      `json:"revision,omitempty"`
	Clients  []adminapi.DataPlaneClient `json:"clients"`
	// Providers are those that are configured, or were asked in the last hour.
	Providers []providerStatus `json:"providers"`
	Refused   []refusedObject  `json:"refused"`
	Ledger    string           `json:"ledger"` // ok, or what is wrong with it
	// Backlog is how many records wait for the ledger in the process at the admin address; absent if it has no spool.
	Backlog *int64 `json:"ledger_backlog,omitempty"`
}

type providerStatus struct {
	Name     string `json:"name"`
	Disabled bool   `json:"disabled,omitempty"`
	Deleted  bool   `json:"deleted,omitempty"` // since it was asked
	Error    string `json:"error,omitempty"`
	// Of the last hour.
	Requests  int64  `json:"requests"`
	Errors    int64  `json:"errors"`
	CostUSD   string `json:"cost_usd,omitempty"`
	LatencyMS int64  `json:"latency_p50_ms,omitempty"`
	// Health is how the attempts at it went; absent if the gateway cannot tell.
	Health *adminapi.ProviderHealth `json:"health,omitempty"`
}

// A refusedObject has no effect.
type refusedObject struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Error string `json:"error"`
}

// Run prints how the gateway is.
func (c StatusCmd) Run(ctx context.Context, stdout io.Writer) error {
	if !c.Watch {
		return c.once(ctx, stdout)
	}
	if c.Every <= 0 {
		return admincli.Misused("--every must be more than 0")
	}
	return console.Watch(ctx, stdout, c.Every, func(screen io.Writer) error {
		err := c.once(ctx, screen)
		if errors.Is(err, adminflags.ErrUnhealthy) { // which is shown
			return nil
		}
		return err
	})
}

// once looks once.
func (c StatusCmd) once(ctx context.Context, stdout io.Writer) error {
	conn, err := c.Connect()
	if err != nil {
		return err
	}
	client := adminapi.NewClient(conn.Server, conn.Token, conn.HTTP)
	ready, says := readiness(ctx, conn)
	r := StatusReport{Admin: conn.Server, Ready: ready, Problems: []string{}, Refused: []refusedObject{}}
	if r.Ready != adminapi.HealthOK {
		r.problem("control plane: %s", r.Ready)
	}
	for _, line := range says {
		r.problem("%s", line)
	}
	if err := r.dataPlane(ctx, client); err != nil {
		return admincli.Said(err) // nothing else would be known either
	}
	if err := r.objects(ctx, client); err != nil {
		r.problem("configuration: %v", admincli.Said(err))
	}
	r.ledger(ctx, client)
	r.attention(ctx, client)
	r.receivers(ctx, client)
	if n, ok := admincli.Samples(ctx, conn)[admincli.MetricBacklog]; ok {
		waiting := int64(n)
		r.Backlog = &waiting
		if waiting > admincli.LongBacklog {
			r.problem("ledger: %d records wait for shipment", waiting)
		}
	}
	r.OK = len(r.Problems) == 0
	err = c.Show(stdout, r, func(out *console.Text) {
		out.Names = adminapi.Names(ctx, client)
		r.table(out)
	})
	if err != nil {
		return err
	}
	if !r.OK {
		return adminflags.ErrUnhealthy
	}
	return nil
}

func (r *StatusReport) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// readiness returns ok, or why the process at the admin address does not serve, and what it says besides.
func readiness(ctx context.Context, conn admincli.Conn) (ready string, says []string) {
	status, text, _, err := admincli.Fetch(ctx, conn, "/readyz")
	if err != nil {
		return admincli.Said(err).Error(), nil
	}
	return adminapi.Readyz(status, text)
}

func (r *StatusReport) dataPlane(ctx context.Context, client *adminapi.Client) error {
	plane, err := client.DataPlane(ctx)
	if err != nil {
		return err
	}
	r.Version, r.Revision, r.Clients = plane.Version, plane.Revision, plane.Clients
	for _, role := range []string{admincli.RoleEnvoy, admincli.RoleExtProc} {
		if !slices.ContainsFunc(plane.Clients, func(c adminapi.DataPlaneClient) bool { return c.Role == role }) {
			r.problem("no %s is connected", role)
		}
	}
	for _, c := range plane.Clients {
		if c.Health != adminapi.HealthOK {
			r.problem("%s %s: %s", c.Role, c.Node, withReason(c.Health, c.Error))
		}
	}
	return nil
}

func withReason(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// objects finds the providers and what is refused. Keys are left out: there may be a hundred thousand, and what is
// wrong with one of them is nobody else's problem.
func (r *StatusReport) objects(ctx context.Context, client *adminapi.Client) error {
	for _, kind := range configv1.Kinds() {
		if kind.Name == configv1.KeyKind().Name {
			continue
		}
		items, err := admincli.ListAll(ctx, client, kind, adminapi.ListOptions{})
		if err != nil {
			return err
		}
		for _, i := range items {
			if p, ok := i.Object.(*configv1.Provider); ok {
				r.Providers = append(r.Providers, providerStatus{Name: i.Name, Disabled: p.GetDisabled(), Error: i.Status.Error})
			}
			if i.Status.Error != "" {
				r.Refused = append(r.Refused, refusedObject{kind.Name, i.Name, i.Status.Error})
				r.problem("%s %s: %s", kind.Name, i.Name, i.Status.Error)
			}
		}
	}
	return nil
}

// ledger adds what providers did in the last hour.
func (r *StatusReport) ledger(ctx context.Context, client *adminapi.Client) {
	now := time.Now()
	summary, err := client.Summary(ctx, adminapi.ListOptions{Filters: map[string]string{
		"start": strconv.FormatInt(now.Add(-admincli.Recently).Unix(), 10), "end": strconv.FormatInt(now.Unix(), 10),
	}})
	if err != nil {
		r.Ledger = admincli.Said(err).Error()
		r.problem("ledger: %s", r.Ledger)
		return
	}
	r.Ledger = adminapi.HealthOK
	r.health(ctx, client)
	for _, t := range summary.Providers {
		i := slices.IndexFunc(r.Providers, func(p providerStatus) bool { return p.Name == t.Name })
		if i < 0 {
			i, r.Providers = len(r.Providers), append(r.Providers, providerStatus{Name: t.Name,
				Deleted: t.Name != usage.ResponseCache})
		}
		p := &r.Providers[i]
		p.Requests, p.Errors, p.CostUSD, p.LatencyMS = t.Requests, t.Errors, t.CostUSD, t.LatencyP50
	}
}

// health adds how the attempts at each provider went.
func (r *StatusReport) health(ctx context.Context, client *adminapi.Client) {
	health, err := client.Health(ctx)
	if err != nil {
		return // the summary says why
	}
	var untried []string
	for _, h := range health.Providers {
		i := slices.IndexFunc(r.Providers, func(p providerStatus) bool { return p.Name == h.Provider })
		if i < 0 {
			continue
		}
		r.Providers[i].Health = &h
		if h.State == adminapi.ProviderUntried && !r.Providers[i].Disabled {
			untried = append(untried, h.Provider)
		}
	}
	if len(untried) > 0 {
		r.Notes = append(r.Notes, "Not asked yet: "+admincli.Some(untried)+". To ask one: modelgate provider test NAME")
	}
}

// attention adds what needs attention and is not shown by itself. What waits for a person's decision, and what a
// tenant has brought about, is no problem of the gateway. What has an incident is told with the time since when.
func (r *StatusReport) attention(ctx context.Context, client *adminapi.Client) {
	found, err := client.Attention(ctx)
	if err != nil {
		return // what else was asked for says why
	}
	why := map[string]string{}
	if open, err := client.Incidents(ctx); err == nil { // else it is told without
		for _, i := range open.Items {
			why[i.Subject] = i.Why
		}
	}
	for _, a := range found.Items {
		says := strings.TrimPrefix(a.Object+": "+a.Message, ": ")
		if why[a.Subject] != "" {
			says = why[a.Subject]
		}
		switch a.Kind {
		case adminapi.AttentionObjectError, adminapi.AttentionDataPlane, adminapi.AttentionLedger:
		case adminapi.AttentionSpool, adminapi.AttentionStore, adminapi.AttentionCheckerAway, adminapi.AttentionJobs,
			adminapi.AttentionCredentialRejected, adminapi.AttentionProviderFailing, adminapi.AttentionModelFailing,
			adminapi.AttentionAuditSink:
			r.problem("%s", says)
		default:
			r.Notes = append(r.Notes, says)
		}
	}
}

func (r StatusReport) table(out *console.Text) {
	ledger := r.Ledger
	if r.Backlog != nil {
		ledger += fmt.Sprintf(", %d records wait", *r.Backlog)
	}
	out.Printf("Control plane  %s\nVersion        %s\nRevision       %d\nReady          %s\nLedger         %s\n\n",
		r.Admin, r.Version, r.Revision, adminapi.OneLine(r.Ready), adminapi.OneLine(ledger))
	out.Table("No data plane is connected.", []string{"NODE", "ROLE", "VERSION", "REVISION", "CONNECTED", "HEALTH"},
		admincli.Rows(r.Clients, func(c adminapi.DataPlaneClient) []string {
			return []string{c.Node, c.Role, c.Version, strconv.FormatInt(c.Revision, 10), out.Time(c.ConnectedAt),
				withReason(c.Health, c.Error)}
		}))
	out.WriteByte('\n')
	out.Table("There is no provider.", []string{"PROVIDER", "REQUESTS/H", "ERRORS/H", "USD/H", "HEALTH", "STATE"},
		admincli.Rows(r.Providers, providerStatus.row))
	if r.OK {
		out.WriteString("\n" + out.Style(console.Green, "All is well.") + "\n")
	} else {
		out.WriteByte('\n')
	}
	for _, p := range r.Problems {
		out.WriteString(out.Style(console.Red, "!") + " " + adminapi.OneLine(out.Named(p)) + "\n")
	}
	for _, n := range r.Notes {
		out.WriteString(out.Style(console.Yellow, "-") + " " + adminapi.OneLine(out.Named(n)) + "\n")
	}
}

func (p providerStatus) row() []string {
	state, health := "active", ""
	if p.Disabled {
		state = "disabled"
	}
	if p.Deleted {
		state = "deleted"
	}
	if p.Error != "" {
		state = "error: " + p.Error
	}
	if p.Health != nil {
		health = p.Health.Word()
	}
	return []string{p.Name, number(p.Requests), number(p.Errors), p.CostUSD, health, state}
}

// receivers finds receivers of alerts that fail. A token without the scope, and a gateway without alerts, say nothing.
func (r *StatusReport) receivers(ctx context.Context, client *adminapi.Client) {
	all, err := client.Alerts(ctx)
	if err != nil {
		return
	}
	for _, of := range all.Receivers {
		if of.Error != "" && !of.Disabled {
			r.problem("alerts: receiver %s: %s", of.Name, of.Error)
		}
	}
}
