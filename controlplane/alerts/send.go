package alerts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/webhook"
)

// networkFlag is the flag that allows private networks.
const networkFlag = "--alert-network"

// A result is what came of an attempt. Says is for people and has no secret.
type result struct {
	outcome string
	says    string
	after   time.Duration // that the receiver wants to be left alone
}

// A sender makes attempts.
type sender struct {
	client        *webhook.Client
	secure, plain *net.Dialer // of connections to SMTP servers
	credential    func(*configv1.AlertReceiver) (secret.Value, error)
	named         func(string) string // a text for people, with names in place of ids
	settings      func(*mailOptions)  // of tests
	patience      time.Duration       // bounds an attempt; 0: webhook.Timeout
}

// newTest returns the event of a test.
func newTest(now time.Time) adminapi.AlertEvent {
	return adminapi.AlertEvent{ID: id.New("alert"), At: now, Type: adminapi.AlertTested,
		Message: "This is a test message of Modelgate. Nothing is wrong."}
}

// send makes one attempt to tell a receiver of an event.
func (s *sender) send(ctx context.Context, r *configv1.AlertReceiver, e adminapi.AlertEvent) result {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.patience, webhook.Timeout))
	defer cancel()
	credential, err := s.credential(r)
	if err != nil {
		return result{outcome: webhook.Unsigned, says: "its credential cannot be had: " + line(err.Error(), maxMessage)}
	}
	if r.GetWebhook() == nil { // people read it
		e.Subject, e.Message = s.named(e.Subject), s.named(e.Message)
	}
	switch {
	case r.GetEmail() != nil:
		return s.mail(ctx, r.GetEmail(), credential, e)
	case r.GetSlack() != nil:
		if err := r.CheckSlackURL(credential.Reveal()); err != nil {
			return result{outcome: webhook.Unsigned, says: "its credential " + err.Error()}
		}
		return posted(s.client.Post(ctx, credential.Reveal(), webhook.Message{ID: e.ID, Body: slackBody(e)}, time.Now()))
	}
	return posted(s.client.Post(ctx, r.GetWebhook().GetUrl(), webhook.Message{ID: e.ID, Body: webhookBody(e),
		Secret: credential.Reveal(), Signed: true}, time.Now()))
}

func posted(r webhook.Result) result { return result{r.Outcome, r.Says(networkFlag), r.After} }

// webhookBody returns the body for a webhook, which is the same at each attempt.
func webhookBody(e adminapi.AlertEvent) []byte {
	data := map[string]string{"rule": e.Rule, "condition": e.Condition, "subject": e.Subject, "message": e.Message}
	if e.Incident != "" {
		data["incident"] = e.Incident
	}
	body, _ := webhook.Event(e.ID, e.At.Unix(), e.Type, data) // it has nothing that cannot be written
	return body
}

// slackBody returns the body for Slack. The text cannot contain markup.
func slackBody(e adminapi.AlertEvent) []byte {
	escaped := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(title(e) + "\n" + e.Message)
	body, _ := json.Marshal(map[string]string{"text": escaped}) // likewise
	return body
}

// title returns the first line of a message for people.
func title(e adminapi.AlertEvent) string {
	switch e.Type {
	case adminapi.AlertTested:
		return "[Modelgate] Test"
	case adminapi.AlertCleared:
		return line(fmt.Sprintf("[Modelgate] Cleared: %s: %s", e.Rule, e.Subject), maxMessage)
	}
	return line(fmt.Sprintf("[Modelgate] Firing: %s: %s", e.Rule, e.Subject), maxMessage)
}
