package hostile

import (
	"crypto/tls"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// dial opens a session. It returns nil and the status if it is refused.
func (b *biller) dial(t *testing.T, key string) (*websocket.Conn, int) {
	transport, ok := b.Client.Transport.(*http.Transport)
	require.True(t, ok)
	d := websocket.Dialer{HandshakeTimeout: 10 * time.Second,
		TLSClientConfig: &tls.Config{RootCAs: transport.TLSClientConfig.RootCAs, MinVersion: tls.VersionTLS12}}
	c, answer, err := d.DialContext(t.Context(), "wss"+strings.TrimPrefix(b.URL, "https")+"/v1/realtime?model=oai/m",
		http.Header{"Authorization": {"Bearer " + key}})
	if answer == nil {
		require.NoError(t, err)
	}
	_ = answer.Body.Close()
	if err != nil {
		return nil, answer.StatusCode
	}
	return c, answer.StatusCode
}

// TestSessionsOpenedAtOnceKeepToABudget opens many sessions while a budget has room for the responses of seven.
func TestSessionsOpenedAtOnceKeepToABudget(t *testing.T) {
	t.Parallel()
	b := startBiller(t)
	b.Apply(t, &configv1.Organization{Name: "voices",
		Budgets: []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: "0.002"}}})
	_, key := b.CreateKey(t, "voices", "")
	const all = 30
	var wait sync.WaitGroup
	opened := make(chan *websocket.Conn, all)
	for range all {
		wait.Go(func() {
			c, status := b.dial(t, key)
			if c != nil {
				opened <- c
				return
			}
			if status != http.StatusTooManyRequests {
				t.Errorf("status %d", status)
			}
		})
	}
	wait.Wait()
	close(opened)
	require.Len(t, opened, 7, "256 tokens of 2000 each")
	b.vendor.counts()
	for c := range opened {
		require.NoError(t, c.WriteMessage(websocket.TextMessage,
			[]byte(`{"type":"conversation.item.create","item":{"role":"user","content":[{"type":"input_text","text":"`+sentence+`"}]}}`)))
		require.NoError(t, c.WriteMessage(websocket.TextMessage, []byte(`{"type":"response.create"}`)))
		for range vendorWords + 1 {
			_, _, err := c.ReadMessage()
			require.NoError(t, err)
		}
		require.NoError(t, c.Close())
	}
	b.settles("voices")
	c, _ := b.dial(t, key)
	require.NotNil(t, c, "what is held is given back")
	require.NoError(t, c.Close())
}
