package admin

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// reached returns every message that an object of any kind can hold.
func reached() map[protoreflect.Name]protoreflect.MessageDescriptor {
	found := map[protoreflect.Name]protoreflect.MessageDescriptor{}
	var walk func(protoreflect.MessageDescriptor)
	walk = func(m protoreflect.MessageDescriptor) {
		if found[m.Name()] != nil {
			return
		}
		found[m.Name()] = m
		for i := range m.Fields().Len() {
			if fd := m.Fields().Get(i); isOurs(fd) {
				walk(fd.Message())
			}
		}
	}
	for _, kind := range configv1.Kinds() {
		walk(kind.New().ProtoReflect().Descriptor())
	}
	return found
}

func TestEveryFieldOfEveryKindIsLookedAt(t *testing.T) {
	rows, used := looks(), map[string]bool{}
	require.Len(t, configv1.Kinds(), 28)
	for name, m := range reached() {
		// Of what has a credential, or is trusted with one, each field is a row of its own: a new one is not let pass.
		fields := m.Fields()
		for i := range fields.Len() {
			fd := fields.Get(i)
			if isOurs(fd) {
				continue // its message has rows
			}
			_, known := lookOf(rows, fd)
			require.True(t, known,
				"%s decides who sees a credential, or does not: give it a row in looks, and docs/threat-model.md", fd.FullName())
			if row := string(name) + "." + string(fd.Name()); rows[row] != (look{}) {
				used[row] = true
			} else {
				used[string(name)+".*"] = true
			}
		}
	}
	for row := range rows {
		require.True(t, used[row], "%s is no field", row)
	}
	for _, whole := range []string{"Provider", "Webhook", "Certificate", "JobService", "Account", "AdminToken",
		"AlertReceiver", "AlertWebhook", "AlertSlack", "AlertEmail", "AuditSink", "AuditWebhook", "AuditSyslog", "AuditOtlp",
		"AuditFile", "ResponseCache", "SimilarAnswers"} {
		require.NotContains(t, rows, whole+".*", "a new field of it needs an answer of its own")
	}
}

func TestTheThreatModelHasTheTableOfFields(t *testing.T) {
	text, err := os.ReadFile("../../docs/threat-model.md")
	require.NoError(t, err)
	rows := looks()
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := fmt.Sprintf("| `%s` | %s | %s |\n", name, rows[name].sight, rows[name].why)
		if !strings.Contains(string(text), row) {
			missing = append(missing, row)
		}
	}
	require.Empty(t, missing, "docs/threat-model.md lacks:\n%s", strings.Join(missing, ""))
	require.Equal(t, len(rows), strings.Count(string(text), " | no | ")+strings.Count(string(text), " | credential | ")+
		strings.Count(string(text), " | decides | ")+strings.Count(string(text), " | rights | "),
		"it has rows of fields that are no more")
}

// A field that nobody has looked at counts as one that decides.
func TestAnUnknownFieldDecides(t *testing.T) {
	fd := (&configv1.Provider{}).ProtoReflect().Descriptor().Fields().ByName("trace_context")
	l, known := lookOf(map[string]look{}, fd)
	require.False(t, known)
	require.Equal(t, decides, l.sight)
}
