package admin

import (
	"context"
	"net/http"
	"net/url"
)

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
