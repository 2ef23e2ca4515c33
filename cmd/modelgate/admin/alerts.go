package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
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
	client, err := c.Client()
	if err != nil {
		return err
	}
	all, err := client.Alerts(ctx)
	if err != nil {
		return admincli.Said(err)
	}
	return c.Show(stdout, all, func(w io.Writer) error {
		var rows [][]string
		for _, a := range all.Items {
			rows = append(rows, []string{a.State, a.Rule, admincli.OneLine(a.Subject), a.Since.UTC().Format(time.RFC3339),
				admincli.OneLine(a.Message)})
		}
		if err := admincli.PrintTable(w, []string{"STATE", "RULE", "SUBJECT", "SINCE", "MESSAGE"}, rows); err != nil {
			return err
		}
		rows = nil
		for _, r := range all.Receivers {
			rows = append(rows, []string{r.Name, r.Kind, strconv.Itoa(r.Waiting), admincli.OneLine(r.Error)})
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		return admincli.PrintTable(w, []string{"RECEIVER", "KIND", "WAITING", "ERROR"}, rows)
	})
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
	client, err := c.Client()
	if err != nil {
		return err
	}
	all, err := client.AlertHistory(ctx)
	if err != nil {
		return admincli.Said(err)
	}
	return c.Show(stdout, all, func(w io.Writer) error {
		var rows [][]string
		for _, e := range all.Items {
			var told []string
			for _, d := range e.Deliveries {
				told = append(told, d.Receiver+": "+d.State)
			}
			rows = append(rows, []string{e.At.UTC().Format(time.RFC3339), e.Type, e.Rule, admincli.OneLine(e.Subject),
				strings.Join(told, ", "), admincli.OneLine(e.Message)})
		}
		return admincli.PrintTable(w, []string{"AT", "TYPE", "RULE", "SUBJECT", "TOLD", "MESSAGE"}, rows)
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
	client, err := c.Client()
	if err != nil {
		return err
	}
	found, err := client.TestAlert(ctx, c.Receiver)
	if err != nil {
		return admincli.Said(err)
	}
	if !found.OK {
		return errors.New(found.Message)
	}
	return c.Show(stdout, found, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, found.Message)
		return err
	})
}
