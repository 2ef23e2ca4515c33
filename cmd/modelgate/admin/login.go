package admin

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/oauth2"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
)

// loginWithin is how long the person may take.
const loginWithin = 10 * time.Minute

// LoginCmd is the command login.
type LoginCmd struct {
	adminflags.AdminFlags
	Device bool `help:"Show a code to type into a browser on any machine, instead of opening one here. This is the default without a desktop and over SSH."`
}

// Help is shown below the flags' summary.
func (LoginCmd) Help() string {
	return "Example:\n  modelgate login --server https://admin.example.com\n  modelgate status --server https://admin.example.com"
}

// Run signs in, and stores the sign-in for other commands.
func (c LoginCmd) Run(ctx context.Context, stdout io.Writer) error {
	conn, err := c.Reach()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, loginWithin)
	defer cancel()
	s := signingIn{conn: conn, verifier: oauth2.GenerateVerifier(), out: stdout}
	got, err := s.byBrowser(ctx, c.Device || !hasDesktop())
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("nobody has signed in within %s", loginWithin)
	}
	if err != nil {
		return admincli.Said(err)
	}
	entry := adminflags.LoginEntry{Token: got.Token, Account: got.Account, ExpiresAt: got.ExpiresAt}
	if err := adminflags.ReadLogins().Put(conn.Server, entry); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "Signed in to %s as %s (%s) until %s.\n", conn.Server, got.Account, got.Role,
		got.ExpiresAt.Local().Format("Jan 2 15:04"))
	return err
}

// hasDesktop reports whether a browser can be opened in front of the person.
func hasDesktop() bool {
	if os.Getenv("SSH_CONNECTION") != "" {
		return false
	}
	return runtime.GOOS != "linux" || os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}

// A signingIn is a sign-in that has begun.
type signingIn struct {
	conn     admincli.Conn
	verifier string
	out      io.Writer
}

func (s signingIn) byBrowser(ctx context.Context, elsewhere bool) (adminapi.TerminalSession, error) {
	if elsewhere {
		return s.elsewhere(ctx)
	}
	return s.here(ctx)
}

// here has a browser on this machine lead back with a code (authorization code with PKCE, RFC 8252).
func (s signingIn) here(ctx context.Context) (adminapi.TerminalSession, error) {
	var none adminapi.TerminalSession
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return none, fmt.Errorf("waiting for the browser: %w", err)
	}
	state, codes := rand.Text(), make(chan string, 1)
	server := &http.Server{ReadHeaderTimeout: adminflags.AdminTimeout, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("state") != state || r.URL.Query().Get("code") == "" {
				http.Error(w, "This is not the answer to modelgate login.", http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, signedInPage) // the browser has gone away
			select {
			case codes <- r.URL.Query().Get("code"):
			default:
			}
		})}
	go func() { _ = server.Serve(l) }() // until Shutdown
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(ctx) // the process ends soon
	}()
	port := l.Addr().(*net.TCPAddr).Port
	page := s.conn.Server + adminapi.PathTerminal + "?" + url.Values{"port": {strconv.Itoa(port)}, "state": {state},
		"challenge": {oauth2.S256ChallengeFromVerifier(s.verifier)}}.Encode()
	if _, err := fmt.Fprintf(s.out, "Sign in with your browser. If it does not open, open this page on this machine:\n\n  %s\n\n",
		page); err != nil {
		return none, err
	}
	openBrowser(ctx, page)
	select {
	case code := <-codes:
		return s.redeem(ctx, code)
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// signedInPage is the last page that the browser shows. Its icon is within it, as the command line ends at once.
const signedInPage = `<!doctype html><html lang="en"><title>Modelgate</title><link rel="icon" href="data:,">
<p>You are signed in. Go back to the command line.`

// openBrowser opens a page. Where that fails, the person opens it.
func openBrowser(ctx context.Context, page string) {
	program := map[string]string{"darwin": "open", "windows": "explorer"}[runtime.GOOS]
	if program == "" {
		program = "xdg-open"
	}
	_ = exec.CommandContext(ctx, program, page).Start()
}

// elsewhere shows a code, and asks until somebody has typed it into a browser.
func (s signingIn) elsewhere(ctx context.Context) (adminapi.TerminalSession, error) {
	var device adminapi.Device
	err := s.post(ctx, adminapi.PathTerminalDevice+"/begin",
		adminapi.DeviceRequest{Challenge: oauth2.S256ChallengeFromVerifier(s.verifier)}, &device)
	if err != nil {
		return adminapi.TerminalSession{}, err
	}
	if _, err := fmt.Fprintf(s.out, "Open this page in a browser, on any machine, and type the code:\n\n  %s\n  %s\n\n",
		device.URL, device.UserCode); err != nil {
		return adminapi.TerminalSession{}, err
	}
	ticker := time.NewTicker(max(time.Second, time.Duration(device.Interval)*time.Second))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return adminapi.TerminalSession{}, ctx.Err()
		}
		if got, err := s.redeem(ctx, device.DeviceCode); err != nil || !got.Pending {
			return got, err
		}
	}
}

func (s signingIn) redeem(ctx context.Context, code string) (got adminapi.TerminalSession, err error) {
	err = s.post(ctx, adminapi.PathTerminalToken, adminapi.GrantRequest{Code: code, Verifier: s.verifier}, &got)
	return got, err
}

// post sends JSON to the dashboard.
func (s signingIn) post(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.conn.Server+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := s.conn.HTTP.Do(r)
	if err != nil {
		return fmt.Errorf("signing in: %w", err)
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	if err != nil {
		return fmt.Errorf("signing in: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return adminapi.ErrorOf(answer.StatusCode, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the response (%s) is not from a dashboard; is the address correct?", answer.Status)
	}
	return nil
}

// LogoutCmd is the command logout.
type LogoutCmd struct{ adminflags.AdminFlags }

// Run ends the sign-in to a gateway.
func (c LogoutCmd) Run(ctx context.Context, stdout io.Writer) error {
	conn, err := c.Reach()
	if err != nil {
		return err
	}
	all := adminflags.ReadLogins()
	entry := all.Entries[adminflags.ServerKey(conn.Server)]
	if entry.Token == "" {
		return errors.Join(all.Err, fmt.Errorf("you are not signed in to %s", conn.Server))
	}
	s := signingIn{conn: conn}
	err = s.post(ctx, adminapi.PathTerminalEnd, adminapi.TerminalSession{Token: entry.Token}, &struct{}{})
	if err != nil {
		return admincli.Said(err)
	}
	if err := all.Put(conn.Server, adminflags.LoginEntry{}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "Signed out of %s.\n", conn.Server)
	return err
}
