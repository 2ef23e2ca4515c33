package configv1

import (
	"cmp"
	"errors"
	"math"
	"net"
	"net/url"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// maxTold bounds the addresses of a receiver.
	maxTold = 20

	defaultFor        = time.Minute
	defaultClearAfter = 5 * time.Minute
	maxAlertDelay     = 24 * time.Hour
	defaultSlack      = "hooks.slack.com"

	smtpSubmission  = 587
	smtpSubmissions = 465
)

// A threshold has the default and the bounds of the value that a condition compares. Without a highest value
// it has no upper bound.
type threshold struct{ usual, lowest, highest float64 }

func thresholds() map[AlertCondition]threshold {
	return map[AlertCondition]threshold{
		AlertCondition_BUDGET_SPENT:        {80, 1, 1000},
		AlertCondition_BUDGET_FORECAST:     {100, 1, 1000},
		AlertCondition_PROVIDER_FAILING:    {},
		AlertCondition_PROVIDER_COOLING:    {},
		AlertCondition_CREDENTIAL_REJECTED: {1, 1, 1e6},
		AlertCondition_ERROR_RATE:          {5, 0.1, 100},
		AlertCondition_LIMIT_REACHED:       {1, 1, 1e6},
		AlertCondition_KEY_EXPIRES:         {7, 1, 365},
		AlertCondition_CERTIFICATE_EXPIRES: {14, 1, 365},
		AlertCondition_LEDGER_TROUBLE:      {},
		AlertCondition_DATA_PLANE_TROUBLE:  {},
		AlertCondition_OBJECT_ERROR:        {},
		AlertCondition_INCIDENT:            {},
	}
}

// Limit returns the threshold of a rule: its own, or else that of its condition.
func (r *AlertRule) Limit() float64 {
	if r.Threshold != nil {
		return r.GetThreshold()
	}
	return thresholds()[r.GetCondition()].usual
}

// FiresAfter returns how long the condition must hold before the alert fires.
func (r *AlertRule) FiresAfter() time.Duration { return orDefault(r.GetFor(), defaultFor) }

// ClearsAfter returns how long the condition must not hold before the alert clears.
func (r *AlertRule) ClearsAfter() time.Duration {
	return orDefault(r.GetClearAfter(), defaultClearAfter)
}

// HostName returns the host of the URL.
func (s *AlertSlack) HostName() string { return cmp.Or(s.GetHost(), defaultSlack) }

// PortNumber returns the port of the SMTP server.
func (e *AlertEmail) PortNumber() uint32 {
	if e.GetPort() == 0 && e.GetTls() == SmtpTls_IMPLICIT {
		return smtpSubmissions
	}
	return cmp.Or(e.GetPort(), smtpSubmission)
}

func (r *AlertRule) check(v *validator) {
	t, known := thresholds()[r.GetCondition()]
	switch {
	case !known:
		v.fail("condition", "must be one of %s", listing(conditionNames()))
	case r.Threshold == nil:
	case t.highest == 0:
		v.fail("threshold", "is of no use with %s; leave it out", r.GetCondition())
	case math.IsNaN(r.GetThreshold()) || r.GetThreshold() < t.lowest || r.GetThreshold() > t.highest:
		v.fail("threshold", "must be between %g and %g with %s", t.lowest, t.highest, r.GetCondition())
	}
	switch severity := r.GetSeverity(); {
	case severity == "":
	case r.GetCondition() != AlertCondition_INCIDENT:
		v.fail("severity", "is of no use with %s; leave it out", r.GetCondition())
	case severity != "error" && severity != "warning":
		v.fail("severity", "must be error or warning")
	}
	v.alertScope(r)
	v.alertDelay("for", r.GetFor())
	v.alertDelay("clear_after", r.GetClearAfter())
}

// alertScope refuses a scope that contains no subjects of the condition: such a rule would never fire.
func (v *validator) alertScope(r *AlertRule) {
	tenant, provider := false, false
	switch r.GetCondition() {
	case AlertCondition_BUDGET_SPENT, AlertCondition_BUDGET_FORECAST, AlertCondition_LIMIT_REACHED,
		AlertCondition_KEY_EXPIRES:
		tenant = true
	case AlertCondition_PROVIDER_FAILING, AlertCondition_PROVIDER_COOLING, AlertCondition_CREDENTIAL_REJECTED:
		provider = true
	case AlertCondition_ERROR_RATE:
		tenant, provider = true, true
	}
	for _, field := range []struct {
		name, value string
		may         bool
	}{{"organization", r.GetOrganization(), tenant}, {"project", r.GetProject(), tenant}, {"key", r.GetKey(), tenant},
		{"provider", r.GetProvider(), provider}} {
		if field.value != "" && !field.may {
			v.fail(field.name, "is of no use with %s; leave it out", r.GetCondition())
		}
	}
}

func conditionNames() (names []string) {
	for i := range len(AlertCondition_name) - 1 {
		names = append(names, AlertCondition_name[int32(i+1)])
	}
	return names
}

// alertDelay is duration for one that may be 0.
func (v *validator) alertDelay(field string, d *durationpb.Duration) {
	if d != nil && (d.CheckValid() != nil || d.AsDuration() < 0 || d.AsDuration() > maxAlertDelay) {
		v.fail(field, "must be at least 0 s and at most %d h", int(maxAlertDelay.Hours()))
	}
}

func (r *AlertReceiver) check(v *validator) {
	given := 0
	for _, there := range []bool{r.GetWebhook() != nil, r.GetSlack() != nil, r.GetEmail() != nil} {
		if there {
			given++
		}
	}
	switch {
	case given != 1:
		v.fail("", "needs exactly one of webhook, slack and email")
	case r.GetWebhook() != nil:
		v.webhookSecret("credential", r.GetCredential())
	case r.GetSlack() != nil:
		v.alertSlack(r)
	default:
		v.alertEmail(r)
	}
}

func (v *validator) alertSlack(r *AlertReceiver) {
	if u, err := url.Parse("https://" + r.GetSlack().HostName()); err != nil || u.Host != r.GetSlack().HostName() ||
		u.Hostname() == "" {
		v.fail("slack.host", "must be a host such as hooks.slack.com, with a port where that is not 443")
		return
	}
	if r.GetCredential() == nil {
		v.fail("credential", "missing; it is the URL of the incoming webhook")
		return
	}
	if s := r.GetCredential().GetValue(); s != "" {
		if err := r.CheckSlackURL(s); err != nil {
			v.fail("credential.value", "%v", err)
		}
	}
}

// CheckSlackURL returns an error if a credential is not a URL at the receiver's host. The error does not show it.
func (r *AlertReceiver) CheckSlackURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host != r.GetSlack().HostName() || u.User != nil || len(s) > maxURL ||
		strings.ContainsFunc(s, unicode.IsSpace) {
		return errors.New("must be a URL that begins with https://" + r.GetSlack().HostName() + "/")
	}
	return nil
}

func (v *validator) alertEmail(r *AlertReceiver) {
	e := r.GetEmail()
	switch secret := r.GetCredential() != nil; {
	case secret && e.GetUsername() == "":
		v.fail("email.username", "missing; the credential is its password")
	case !secret && e.GetUsername() != "":
		v.fail("credential", "missing; it is the password of the user")
	case secret && e.GetTls() == SmtpTls_PLAINTEXT:
		v.fail("email.tls", "must not be PLAINTEXT: everybody on the way could read the password")
	}
}

func (e *AlertEmail) check(v *validator) {
	if !isHost(e.GetHost()) && net.ParseIP(e.GetHost()) == nil {
		v.fail("host", "must be the name or the IP address of an SMTP server")
	}
	if len(e.GetTo()) == 0 || len(e.GetTo()) > maxTold {
		v.fail("to", "must be 1 to %d addresses", maxTold)
	}
}
