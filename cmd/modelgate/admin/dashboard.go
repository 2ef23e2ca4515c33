package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// DashboardCmd is the command dashboard.
type DashboardCmd struct {
	Link dashboardLinkCmd `cmd:"" help:"Create a link that can create one owner account of the dashboard. The link is valid for one day."`
}

type dashboardLinkCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
}

// Run asks for a link and prints it.
func (c dashboardLinkCmd) Run(ctx context.Context, stdout io.Writer) error {
	conn, err := c.Connect()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, conn.Server+"/sign-in/link", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+conn.Token)
	resp, err := conn.HTTP.Do(req)
	if err != nil {
		return admincli.Said(fmt.Errorf("asking for a link: %w", err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return fmt.Errorf("asking for a link: %w", err)
	}
	var answer struct {
		URL     string `json:"url"`
		Seconds int64  `json:"expires_in_seconds"`
		Error   *struct {
			Message string `json:"message"`
		} `json:"error,omitempty"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.URL == "" {
		if answer.Error != nil {
			return fmt.Errorf("%s", answer.Error.Message)
		}
		return fmt.Errorf("the response (%s) is not from a dashboard; is the address correct?", resp.Status)
	}
	return c.Show(stdout, answer, func(out *console.Text) {
		out.Printf("%s\n\nThe link works once, within %s.\n", answer.URL, time.Duration(answer.Seconds)*time.Second)
	})
}
