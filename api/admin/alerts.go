package admin

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// States of an alert.
const (
	AlertPending = "pending" // the condition holds, but not for long enough yet
	AlertFiring  = "firing"
)

// Types of events.
const (
	AlertFired   = "alert.fired"
	AlertCleared = "alert.cleared"
	AlertTested  = "alert.test"
)

// States of a delivery.
const (
	DeliveryWaiting   = "waiting"
	DeliveryDelivered = "delivered"
	DeliveryGivenUp   = "given_up"
)

// An Alert is a subject that has the condition of a rule.
type Alert struct {
	Rule      string `json:"rule"`
	Condition string `json:"condition"`
	// Subject is the object in the condition, such as provider/openai.
	Subject string `json:"subject"`
	// Message is a sentence for people, of when the condition began.
	Message string `json:"message"`
	// State is pending or firing.
	State string `json:"state"`
	// Since is when the condition began.
	Since time.Time `json:"since"`
	// FiredAt is when receivers were notified. It is nil while the alert is pending.
	FiredAt *time.Time `json:"fired_at,omitempty"`
	// BetterSince is since when the condition of a firing alert does not hold any more.
	BetterSince *time.Time `json:"better_since,omitempty"`
	// Receivers are the receivers that were notified. They are notified again when the alert clears.
	Receivers []string `json:"receivers,omitempty"`
}

// An AlertEvent is a message about an alert.
type AlertEvent struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	// Type is alert.fired, alert.cleared or alert.test.
	Type       string          `json:"type"`
	Rule       string          `json:"rule,omitempty"`
	Condition  string          `json:"condition,omitempty"`
	Subject    string          `json:"subject,omitempty"`
	Message    string          `json:"message"`
	Deliveries []AlertDelivery `json:"deliveries,omitempty"`
}

// An AlertDelivery is what came of telling a receiver of an event.
type AlertDelivery struct {
	Receiver string `json:"receiver"`
	// State is waiting, delivered or given_up.
	State    string `json:"state"`
	Attempts int    `json:"attempts"`
	// At is when it was delivered or given up; while it waits, when it is tried next.
	At time.Time `json:"at"`
	// Error is why the last attempt failed, without secrets.
	Error string `json:"error,omitempty"`
}

// An AlertReceiverStatus is how a receiver is.
type AlertReceiverStatus struct {
	Name string `json:"name"`
	// Kind is webhook, slack or email.
	Kind     string `json:"kind"`
	Disabled bool   `json:"disabled,omitempty"`
	// Waiting is the number of events that are not delivered yet.
	Waiting int `json:"waiting"`
	// Error is why the last attempt failed; empty while it works.
	Error string `json:"error,omitempty"`
}

// Alerts are all alerts, those that fire first, and how the receivers are.
type Alerts struct {
	Items     []Alert               `json:"items"`
	Receivers []AlertReceiverStatus `json:"receivers"`
}

// AlertHistory is the newest events, the newest first.
type AlertHistory struct {
	Items []AlertEvent `json:"items"`
}

// An AlertTest is what came of a test message.
type AlertTest struct {
	OK bool `json:"ok"`
	// Message says what the receiver did, without secrets.
	Message string `json:"message"`
}

// An IdentityTest is what came of a test of an identity provider.
type IdentityTest struct {
	OK bool `json:"ok"`
	// Message says what is wrong, without secrets.
	Message string `json:"message"`
}

// TestIdentity tests an identity provider.
func (c StateCalls) TestIdentity(ctx context.Context, provider string) (IdentityTest, error) {
	var found IdentityTest
	path := "identityproviders/" + url.PathEscape(provider) + "/test"
	err := c.caller.call(ctx, request{method: http.MethodPost, path: path},
		&found)
	return found, err
}

// Alerts returns what fires.
func (c StateCalls) Alerts(ctx context.Context) (Alerts, error) {
	return get[Alerts](ctx, c.caller, "alerts")
}

// AlertHistory returns what has fired and cleared, and who was notified.
func (c StateCalls) AlertHistory(ctx context.Context) (AlertHistory, error) {
	return get[AlertHistory](ctx, c.caller, "alerts/history")
}

// TestAlert sends a test message to a receiver.
func (c StateCalls) TestAlert(ctx context.Context, receiver string) (AlertTest, error) {
	var found AlertTest
	path := "alerts/" + url.PathEscape(receiver) + "/test"
	err := c.caller.call(ctx, request{method: http.MethodPost, path: path}, &found)
	return found, err
}
