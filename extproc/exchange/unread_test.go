package exchange_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/limit"
)

// TestABodyOfARouteIsReservedByItsLength, whether that is announced or not, and of whatever type it says to be. What
// is no text is reserved as what it may be at most, and no limit is too small for that guess.
func TestABodyOfARouteIsReservedByItsLength(t *testing.T) {
	body := `{"contents":"` + strings.Repeat("word ", 300) + `"}`
	length := exchange.Header{Name: "content-length", Value: strconv.Itoa(len(body))}
	long := exchange.Header{Name: "content-length", Value: strconv.Itoa(1 << 20)}
	longest := exchange.Header{Name: "content-length", Value: strconv.Itoa(30 << 20)}
	text := (int64(len(body)) + 3) / 4
	for name, c := range map[string]struct {
		media    string
		headers  []exchange.Header
		perDay   uint64
		held     bool // the body comes first
		reserved int64
		charged  int64 // where the answer is lost
	}{
		"announced":                {"application/json", []exchange.Header{length}, 1e6, false, text, text},
		"chunked":                  {"application/json", nil, 1e6, true, text, text},
		"text":                     {"text/plain", []exchange.Header{length}, 1e6, false, text, text},
		"of no type":               {"", nil, 1e6, true, text, text},
		"a form":                   {"multipart/form-data; boundary=b", []exchange.Header{length}, 1e6, false, text, 0},
		"a chunked form":           {"multipart/form-data; boundary=b", nil, 1e6, true, text, 0},
		"sound":                    {"audio/mpeg", []exchange.Header{length}, 1e6, false, text, 0},
		"a form, and less is left": {"multipart/form-data; boundary=b", []exchange.Header{length}, 100, false, 100, 0},
		"compressed": {"application/json",
			[]exchange.Header{length, {Name: "content-encoding", Value: "gzip"}}, 1e6, false, 64 << 10, text},
		"long":                    {"application/json", []exchange.Header{long}, 1e6, false, 1 << 18, 1 << 18},
		"long, and less is left":  {"application/json", []exchange.Header{long}, 1e5, false, 1e5, 1 << 18},
		"longer than models take": {"text/plain", []exchange.Header{longest}, 1e7, false, 1 << 20, 1 << 20},
		"none": {"application/json", []exchange.Header{{Name: "content-length", Value: "0"}}, 1e6, false,
			0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeter(t, &configv1.Key{Name: "key_1",
				Limits: []*configv1.Limit{{Domain: "tokens", Unit: configv1.Unit_DAY, RequestsPerUnit: c.perDay}}})
			x := exchange.New(m.env, m.config)
			reply := x.RequestHeaders(t.Context(),
				append(exchange.Headers{{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/r/models/m-1:generateContent"},
					{Name: "authorization", Value: "Bearer " + m.secret}, {Name: "content-type", Value: c.media}}, c.headers...),
				false)
			require.Nil(t, reply.Immediate)
			require.Equal(t, !c.held, reply.PassRequest)
			if c.held {
				reply = x.RequestBody(t.Context(), []byte(body))
				require.Equal(t, strconv.Itoa(len(body)), reply.Set.Get("content-length"))
			}
			require.NotNil(t, reply.Plan, "%+v", reply.Immediate)
			require.Equal(t, c.reserved, m.reserved[0].Amounts[limit.InputTokens])
			require.LessOrEqual(t, m.reserved[0].Amounts[limit.Tokens], int64(c.perDay))
			encoded(x, "application/json", "br", false)
			r := x.Close()
			require.Equal(t, c.charged, r.Usage.PromptTokens)
		})
	}
	m := newMeter(t, &configv1.Key{Name: "key_1"})
	_, reply := m.ask("/r/messages", body)
	require.True(t, reply.PassRequest, "what nothing counts is not held")
}
