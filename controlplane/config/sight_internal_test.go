package config

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/modelgate/modelgate/api/config/options"
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

func TestEveryFieldOfEveryKindStatesItsSecrecy(t *testing.T) {
	each := []string{"Provider", "Webhook", "Certificate", "JobService", "Account", "AdminToken",
		"AlertReceiver", "AlertWebhook", "AlertSlack", "AlertEmail", "AuditSink", "AuditWebhook", "AuditSyslog", "AuditOtlp",
		"AuditFile", "ResponseCache", "SimilarAnswers"}
	for name, m := range reached() {
		of, _ := options.OfFields(m).SecrecyAndReason()
		if slices.Contains(each, string(name)) {
			require.Empty(t, of, "%s: a new field of it needs an answer of its own", name)
		}
		used := of == ""
		for i := range m.Fields().Len() {
			fd := m.Fields().Get(i)
			own, _ := options.Of(fd).SecrecyAndReason()
			if isOurs(fd) {
				require.Empty(t, own, "%s: the fields of its message say it", fd.FullName())
				continue
			}
			_, stated := options.SecrecyOf(fd)
			require.True(t, stated, "%s decides who sees a credential, or does not: say it by an option", fd.FullName())
			used = used || own == ""
		}
		require.True(t, used, "%s: its fields all say it themselves", name)
	}
}

// A field that states no secrecy counts as one that decides.
func TestAnUnknownFieldDecides(t *testing.T) {
	is, stated := options.SecrecyOf((&configv1.ResolvedProvider{}).ProtoReflect().Descriptor().Fields().ByName("place"))
	require.False(t, stated)
	require.Equal(t, options.Decides, is)
}

func TestDestinationsDecide(t *testing.T) {
	var found []string
	for name, m := range reached() {
		for i := range m.Fields().Len() {
			fd := m.Fields().Get(i)
			if !options.Of(fd).GetDestination() {
				continue
			}
			is, _ := options.SecrecyOf(fd)
			require.Equal(t, options.Decides, is, fd.FullName())
			found = append(found, string(name)+"."+string(fd.Name()))
		}
	}
	require.ElementsMatch(t, []string{"Provider.vendor", "Provider.endpoint", "Provider.region", "Provider.project",
		"Checker.url", "Webhook.url", "AlertWebhook.url", "AlertSlack.host", "AlertEmail.host", "AlertEmail.port",
		"AlertEmail.tls", "AuditWebhook.url", "AuditOtlp.endpoint", "IdentityProvider.issuer", "SimilarAnswers.url"}, found,
		"a new one needs a rule in package allowed")
	require.Equal(t, map[string]string{"ca": "x"}, beyond(&configv1.Checker{Url: "https://a.example/", Ca: "x"}))
	require.Empty(t, beyond(nil))
}
