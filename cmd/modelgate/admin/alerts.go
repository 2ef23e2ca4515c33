package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// AlertsCmd is the command alerts.
type AlertsCmd struct {
	Firing  alertsFiringCmd  `cmd:"" default:"withargs" help:"Show the alerts that fire, and the receivers."`
	History alertsHistoryCmd `cmd:"" help:"Show what has fired and cleared, and who was told."`
	Test    alertsTestCmd    `cmd:"" help:"Send a test message to a receiver."`
}

type alertsFiringCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
}

// Help is shown below the flags' summary.
func (alertsFiringCmd) Help() string {
	return "Rules and receivers are objects: see docs/alerts.md.\n\nExample:\n  modelgate alerts"
}

// Run prints what fires.
func (c alertsFiringCmd) Run(ctx context.Context, stdout io.Writer) error {
	call := func(client *adminapi.Client) (adminapi.Alerts, error) { return client.Alerts(ctx) }
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call, func(out *console.Text, all adminapi.Alerts) {
		out.Table("No alert fires.", []string{"RULE", "SUBJECT", "STATE", "SINCE", "MESSAGE"},
			admincli.Rows(all.Items, func(a adminapi.Alert) []string {
				return []string{a.Rule, out.Named(a.Subject), a.State, out.Time(a.Since), out.Named(saidOf(out, a))}
			}))
		out.WriteByte('\n')
		out.Table("There is no receiver, so nobody is told: see docs/alerts.md.", []string{"RECEIVER", "KIND", "WAITING", "ERROR"},
			admincli.Rows(all.Receivers, func(r adminapi.AlertReceiverStatus) []string {
				return []string{r.Name, r.Kind, strconv.Itoa(r.Waiting), r.Error}
			}))
	})
}

// saidOf is the message of an alert, with how it was at its worst.
func saidOf(out *console.Text, a adminapi.Alert) string {
	if a.Peak == "" || a.Peak == a.Message || a.PeakAt == nil {
		return a.Message
	}
	return fmt.Sprintf("%s At its worst, %s: %s", a.Message, out.Time(*a.PeakAt), a.Peak)
}

type alertsHistoryCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
}

// Help is shown below the flags' summary.
func (alertsHistoryCmd) Help() string {
	return "The newest 500 events are kept.\n\nExample:\n  modelgate alerts history"
}

// Run prints what has fired and cleared.
func (c alertsHistoryCmd) Run(ctx context.Context, stdout io.Writer) error {
	call := func(client *adminapi.Client) (adminapi.AlertHistory, error) { return client.AlertHistory(ctx) }
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *console.Text, all adminapi.AlertHistory) {
			out.Table("No alert has fired.", []string{"RULE", "SUBJECT", "TYPE", "AT", "TOLD", "MESSAGE"},
				admincli.Rows(all.Items, func(e adminapi.AlertEvent) []string {
					var told []string
					for _, d := range e.Deliveries {
						told = append(told, d.Receiver+": "+d.State)
					}
					return []string{e.Rule, out.Named(e.Subject), e.Type, out.Time(e.At), strings.Join(told, ", "),
						out.Named(e.Message)}
				}))
		})
}

type alertsTestCmd struct {
	Receiver string `arg:"" help:"Name of the AlertReceiver."`
	adminflags.AdminFlags
	adminflags.OutputFlags
}

// Help is shown below the flags' summary.
func (alertsTestCmd) Help() string {
	return "The command exits with 1 if the receiver does not take the message.\n\nExample:\n  modelgate alerts test ops"
}

// Run sends a test message.
func (c alertsTestCmd) Run(ctx context.Context, stdout io.Writer) error {
	call := func(client *adminapi.Client) (adminapi.AlertTest, error) {
		found, err := client.TestAlert(ctx, c.Receiver)
		if err == nil && !found.OK {
			err = errors.New(found.Message)
		}
		return found, err
	}
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *console.Text, found adminapi.AlertTest) { out.Println(found.Message) })
}
