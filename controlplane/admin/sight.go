package admin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A sight says what a field has to do with who sees a credential.
type sight string

const (
	unseen  sight = "no"         // nothing
	secrecy sight = "credential" // it is one, or where one is found
	decides sight = "decides"    // it decides who sees the object's credential, or on whose behalf somebody is believed
	rights  sight = "rights"     // it gives rights of administration: see rightsOf
)

// A look is what the threat model says of a field.
type look struct {
	sight sight
	why   string
}

// looks says it of every field of every kind of object, by "Message.field", and "Message.*" of all that a message has.
// It is the table of docs/threat-model.md. A test fails for a field that is not in it: whoever adds one answers the
// question.
func looks() map[string]look {
	all := looksOfHolders()
	maps.Copy(all, looksOfServices())
	maps.Copy(all, looksOfTraffic())
	maps.Copy(all, looksOfPeople())
	maps.Copy(all, looksOfAlerts())
	return all
}

// looksOfHolders are of what has a credential, or is believed.
func looksOfHolders() map[string]look {
	return map[string]look{
		"Provider.name": {unseen, "a sealed credential can be opened only under its own name"},
		"Provider.vendor": {decides,
			"it sets the endpoint, the header or signature that carries the credential, and where it is exchanged"},
		"Provider.endpoint":               {decides, "where the credential is sent, and whether over TLS"},
		"Provider.headers":                {decides, "vendors' proxies forward a request to the place that a header names"},
		"Provider.models":                 {unseen, "names in a list"},
		"Provider.allow_unlisted_models":  {unseen, "which models clients may name"},
		"Provider.full_names_only":        {unseen, "how clients may name models"},
		"Provider.unsupported_parameters": {unseen, "how requests are translated"},
		"Provider.operations":             {unseen, "other paths at the same host"},
		"Provider.disabled":               {unseen, "whether the credential is sent, not where to"},
		"Provider.region":                 {decides, "part of the vendor's host name"},
		"Provider.project":                {decides, "which account of the vendor's cloud it is used for"},
		"Provider.api_version":            {unseen, "paths and a parameter at the same host"},
		"Provider.untouched_answers":      {unseen, "only responses with the status 200; errors are rewritten"},
		"Provider.native_batches":         {unseen, "other paths at the same host"},
		"Provider.trace_context":          {unseen, "ids, to the same host"},
		"Credential.*": {secrecy,
			"a clear-text value is sealed and never shown; variables and files need the process's flags"},
		"VaultSecret.*": {secrecy,
			"where a secret is in Vault; paths need the process's flags, and the scope `*` to name them"},
		"ManagedSecret.*": {secrecy,
			"where a secret is in a secret manager; names need the process's flags, and the scope `*` to name them"},
		"WorkloadIdentity.*": {secrecy,
			"an identity of the process; it needs the process's flags, and the scope `*` to name it"},
		"UpstreamTLS.*":        {decides, "who is trusted as the endpoint"},
		"Timeouts.*":           {unseen, "how long the gateway waits"},
		"Concurrency.*":        {unseen, "number of concurrent requests"},
		"Webhook.name":         {unseen, "the same as for a Provider"},
		"Webhook.organization": {unseen, "whose jobs it reports, signed"},
		"Webhook.project":      {unseen, "likewise"},
		"Webhook.url":          {decides, "who receives messages signed with the secret, and could present them elsewhere"},
		"Webhook.events":       {unseen, "which events it reports"},
		"Webhook.disabled":     {unseen, "whether it reports any"},
		"Certificate.name":     {unseen, "the same as for a Provider"},
		"Certificate.chain":    {unseen, "it must match the key, which only Envoy receives"},
		"Certificate.chain_file": {unseen,
			"the same; a file needs the flags, and the scope `*` to name it"},
		"JobService.name":    {unseen, "always default"},
		"JobService.address": {decides, "who receives clients' files and the names of their keys"},
		"JobService.listen":  {decides, "who reaches the listener that trusts the named key without seeing it"},
		"MutualTLS.*":        {decides, "who is trusted as the job service"},
		"StoredResponses.*":  {unseen, "how long responses are stored"},
	}
}

// looksOfServices are of services that see requests and answers, besides providers.
func looksOfServices() map[string]look {
	return map[string]look{
		"Checker.name":                  {unseen, "the same as for a Provider"},
		"Checker.type":                  {decides, "which header or signature carries the credential"},
		"Checker.url":                   {decides, "who receives the credential, and the texts of requests and answers"},
		"Checker.ca":                    {decides, "who is trusted as the checker"},
		"Checker.model":                 {unseen, "which model judges"},
		"Checker.prompt":                {unseen, "how it judges"},
		"Checker.timeout":               {unseen, "how long the gateway waits"},
		"Checker.language":              {unseen, "how it judges"},
		"ResponseCache.name":            {unseen, "the same as for a Provider"},
		"ResponseCache.organization":    {unseen, "whose answers are kept; they are shared within a tenant only"},
		"ResponseCache.project":         {unseen, "whose answers are kept"},
		"ResponseCache.key":             {unseen, "whose answers are kept"},
		"ResponseCache.models":          {unseen, "which answers are kept"},
		"ResponseCache.disabled":        {unseen, "whether answers are kept"},
		"ResponseCache.ttl":             {unseen, "how long answers are kept"},
		"ResponseCache.max_bytes":       {unseen, "how many answers are kept"},
		"ResponseCache.max_temperature": {unseen, "which answers are kept"},
		"ResponseCache.tools":           {unseen, "which answers are kept"},
		"ResponseCache.version":         {unseen, "since when answers are kept"},
		"ResponseCache.pace":            {unseen, "how fast a kept stream is replayed"},
		"SimilarAnswers.url":            {decides, "who receives the credential, and the last text of requests"},
		"SimilarAnswers.ca":             {decides, "who is trusted as that service"},
		"SimilarAnswers.model":          {unseen, "which model compares"},
		"SimilarAnswers.dimensions":     {unseen, "how exactly"},
		"SimilarAnswers.threshold":      {unseen, "which requests are similar"},
		"SimilarAnswers.timeout":        {unseen, "how long the gateway waits"},
	}
}

// looksOfTraffic are of what leads requests, limits and prices them.
func looksOfTraffic() map[string]look {
	return map[string]look{
		"Route.name":            {unseen, "what it is called"},
		"Route.path_prefix":     {unseen, "which client paths are forwarded"},
		"Route.provider":        {unseen, "which provider is used; its credential goes only to its own endpoint"},
		"Route.request_headers": {unseen, "which headers of clients the provider gets; never those with keys"},
		"Route.rewrite_prefix":  {unseen, "a path below that endpoint, which it cannot leave"},
		"Model.name":            {unseen, "what clients call it"},
		"Model.owned_by":        {unseen, "shown in lists"},
		"Model.created_at":      {unseen, "shown in lists"},
		"Model.organization":    {unseen, "who may use it"},
		"Model.project":         {unseen, "who may use it"},
		"Target.provider":       {unseen, "which provider is used; each receives only its own credential"},
		"Target.model":          {unseen, "which model is requested"},
		"Target.weight":         {unseen, "how often"},
		"Target.priority":       {unseen, "when"},
		"FineTuned.*":           {unseen, "where a model comes from"},
		"Retry.*": {unseen,
			"how often requests are retried; every credential is removed before another provider is used"},
		"Gateway.name":        {unseen, "what it is called"},
		"Gateway.address":     {unseen, "where clients connect"},
		"Gateway.port":        {unseen, "where clients connect"},
		"Gateway.certificate": {unseen, "which certificate is presented; Envoy has all keys"},
		"Gateway.trusted_hops": {unseen,
			"which client address is trusted; a key bound to addresses is still needed"},
		"Gateway.max_request_bytes": {unseen, "how much"},
		"Gateway.plain_http_port": {unseen,
			"it refuses requests; a client that sends its key there has already exposed it"},
		"AddressLimit.*":        {unseen, "how often"},
		"Cors.*":                {unseen, "from which pages browsers may send requests; a page has its own key"},
		"Limit.*":               {unseen, "how much"},
		"Budget.*":              {unseen, "how much"},
		"Bodies.*":              {unseen, "which bodies are kept, never headers"},
		"Redaction.*":           {unseen, "what is left out of them"},
		"Quotas.*":              {unseen, "how much"},
		"RateLimit.*":           {unseen, "how much"},
		"Guardrail.*":           {unseen, "what is masked or refused; a provider sees no more than without"},
		"GuardRule.*":           {unseen, "likewise"},
		"Policy.*":              {unseen, "what is refused, and which model a request is for, of those that the key may use"},
		"PolicyRule.*":          {unseen, "likewise"},
		"RateLimitDescriptor.*": {unseen, "whose requests count"},
		"RateLimitPolicy.*":     {unseen, "how much"},
		"Catalog.*":             {unseen, "facts about models"},
		"ModelFacts.*":          {unseen, "facts about models"},
		"Capabilities.*":        {unseen, "how requests are translated"},
		"Price.*":               {unseen, "what is charged"},
		"PriceTier.*":           {unseen, "what is charged"},
		"ServiceTierPrice.*":    {unseen, "what is charged"},
		"ToolPrice.*":           {unseen, "what is charged"},
		"Listing.*":             {unseen, "names in a list"},
		"ListedModel.*":         {unseen, "names in a list"},
	}
}

// looksOfPeople are of who uses the gateway, and who administers it.
func looksOfPeople() map[string]look {
	return map[string]look{
		"Key.*":                        {unseen, "what clients may use; its hash cannot be written"},
		"Departure.*":                  {unseen, "who had the key; it cannot be written"},
		"RetiredKey.*":                 {unseen, "likewise"},
		"Organization.*":               {unseen, "what keys share"},
		"Project.*":                    {unseen, "what keys share"},
		"Account.name":                 {unseen, "a name"},
		"Account.display_name":         {unseen, "a name"},
		"Account.role":                 {rights, "only users who have all these rights can give them"},
		"Account.password":             {rights, "only users who have all rights of the account can change it"},
		"Account.password_hash":        {rights, "cannot be written"},
		"Account.disabled":             {rights, "only users who have all rights of the account can change it"},
		"Account.created_at":           {unseen, "when it was made"},
		"Membership.*":                 {rights, "only users who have all these rights can give them"},
		"AdminToken.organization":      {rights, "only users who have all scopes of the token can change it"},
		"AdminToken.project":           {rights, "only users who have all scopes of the token can change it"},
		"Account.read_bodies":          {rights, "only users who have all rights of the account can change it"},
		"Account.break_glass":          {rights, "only users who have all rights of the account can change it"},
		"Account.tenant":               {rights, "cannot be written"},
		"Identity.*":                   {rights, "only users who have all rights of the account can change it"},
		"AdminToken.name":              {unseen, "its id"},
		"AdminToken.display_name":      {unseen, "what it is for"},
		"AdminToken.hash":              {rights, "cannot be written"},
		"AdminToken.hint":              {unseen, "helps to recognise it"},
		"AdminToken.scopes":            {rights, "only users who have these scopes can give them"},
		"AdminToken.expires_at":        {rights, "only users who have all scopes of the token can change it"},
		"AdminToken.created_at":        {unseen, "when it was made"},
		"AdminToken.owner":             {rights, "cannot be written"},
		"Provisioning.*":               {rights, "only users who have all rights of the account, before and after, can change it"},
		"AdminToken.identity_provider": {rights, "goes with the scope scim, which only owners can give"},

		"IdentityProvider.name":               {unseen, "the same as for a Provider"},
		"IdentityProvider.display_name":       {unseen, "a name"},
		"IdentityProvider.issuer":             {decides, "who receives the client's secret, and is believed"},
		"IdentityProvider.client_id":          {decides, "whose secret it is"},
		"IdentityProvider.scopes":             {unseen, "what is asked of the issuer"},
		"IdentityProvider.name_claim":         {rights, "only users who have all these rights can change it"},
		"IdentityProvider.groups_claim":       {rights, "only users who have all these rights can change it"},
		"IdentityProvider.default_role":       {rights, "only users who have all these rights can give them"},
		"IdentityProvider.session":            {unseen, "how long people stay signed in"},
		"IdentityProvider.ca":                 {decides, "who is trusted as the issuer"},
		"IdentityProvider.replaces_passwords": {unseen, "who can sign in with a password"},
		"IdentityProvider.disabled":           {unseen, "whether the credential is used"},
		"IdentityProvider.provisioned_only":   {unseen, "who cannot sign in"},
		"IdentityGroup.*":                     {rights, "only users who have all rights can change it"},
		"TokenIssuer.*":                       {rights, "only users who also have keys:write can change it"},
		"CertificateIssuer.*":                 {rights, "only users who also have keys:write can change it"},
		"CertificateBinding.*":                {rights, "likewise"},
		"TokenBinding.*":                      {rights, "likewise"},
		"GroupRole.*":                         {rights, "only users who have all these rights can give them"},
	}
}

// looksOfAlerts are of who is told of what.
func looksOfAlerts() map[string]look {
	return map[string]look{
		"AlertRule.*":            {unseen, "what is told to whom; no message has a secret"},
		"AlertReceiver.name":     {unseen, "the same as for a Provider"},
		"AlertReceiver.disabled": {unseen, "whether the credential is used"},
		"AlertWebhook.url": {decides,
			"who receives messages signed with the secret, and could present them elsewhere"},
		"AlertSlack.host":     {decides, "the host that the URL is sent to"},
		"AlertEmail.host":     {decides, "where the password is sent"},
		"AlertEmail.port":     {decides, "likewise"},
		"AlertEmail.tls":      {decides, "whether others can read it"},
		"AlertEmail.username": {decides, "whose password it is"},
		"AlertEmail.from":     {decides, "in whose name messages are sent with it"},
		"AlertEmail.to":       {decides, "who gets messages that are sent with it"},

		"Retention.*":        {rights, "only users who have all rights can change it: it deletes the audit log"},
		"ApprovalRule.*":     {rights, "only users who have all rights can change it: it bounds what others may do alone"},
		"AuditSink.name":     {unseen, "the same as for a Provider"},
		"AuditSink.from_now": {rights, "only users who have all rights can change it"},
		"AuditSink.disabled": {rights, "only users who have all rights can change it"},
		"AuditWebhook.url": {decides,
			"who receives the audit log signed with the secret, and could present it elsewhere"},
		"AuditOtlp.endpoint":  {decides, "where the credential and the audit log are sent"},
		"AuditSyslog.address": {decides, "who receives the audit log"},
		"AuditSyslog.tls":     {decides, "whether others can read it"},
		"AuditSyslog.ca":      {decides, "who is trusted as the receiver"},
		"AuditFile.path":      {decides, "the file that is written; it needs the flag"},
	}
}

// lookOf returns what is said of a field. One of which nothing is said decides.
func lookOf(all map[string]look, fd protoreflect.FieldDescriptor) (look, bool) {
	message := string(fd.Parent().Name())
	if l, ok := all[message+"."+string(fd.Name())]; ok {
		return l, true
	}
	if l, ok := all[message+".*"]; ok {
		return l, true
	}
	return look{sight: decides}, false
}

// settings returns the fields of an object, which may be nil, that decide who sees a credential and are set, by path.
func settings(o configv1.Object) map[string]string {
	found := map[string]string{}
	if o != nil {
		collect(looks(), o.ProtoReflect(), "", found)
	}
	return found
}

func collect(all map[string]look, m protoreflect.Message, at string, found map[string]string) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		path := at + string(fd.Name())
		if isOurs(fd) && !fd.IsList() {
			collect(all, v.Message(), path+".", found)
			return true
		}
		if l, _ := lookOf(all, fd); l.sight == decides {
			found[path] = inWords(fd, v)
		}
		return true
	})
}

// isOurs reports whether a field is of a message that the table has rows for.
func isOurs(fd protoreflect.FieldDescriptor) bool {
	return !fd.IsMap() && fd.Message() != nil &&
		fd.Message().ParentFile().Package() == (&configv1.Provider{}).ProtoReflect().Descriptor().ParentFile().Package()
}

func inWords(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if !fd.IsMap() {
		return v.String()
	}
	var pairs []string
	v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		pairs = append(pairs, fmt.Sprintf("%q:%q", k.String(), v.String()))
		return true
	})
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// moved returns the first field in which two results of settings differ, or "".
func moved(now, before map[string]string) string {
	both := map[string]string{}
	maps.Copy(both, before)
	maps.Copy(both, now)
	for _, path := range slices.Sorted(maps.Keys(both)) {
		if now[path] != before[path] {
			return path
		}
	}
	return ""
}

// mayMove returns the error of a caller without the right to a credential who would change who sees it. A credential
// that comes with the change is the caller's own; every other is somebody else's, whatever its kind, and so is the
// place of the job service.
func (p *plan) mayMove(o, stored configv1.Object) error {
	now, before := settings(o), settings(stored)
	if _, ok := o.(*configv1.JobService); ok {
		return refuseMove(moved(now, before))
	}
	kept := credentialsOf(stored)
	for _, c := range configv1.Credentials(o) {
		source, _ := c.Credential.Named()
		field := ""
		switch {
		case proto.Equal(c.Credential, kept[c.Field]):
			field = moved(now, before)
		case source != "": // as a new one: the flags of the process bound where it goes, and nothing bounds the rest
			field = moved(beyond(now), nil)
		}
		if err := refuseMove(field); err != nil {
			return err
		}
	}
	return nil
}

// credentialsOf returns the credentials of an object, which may be nil, by field.
func credentialsOf(o configv1.Object) map[string]*configv1.Credential {
	found := map[string]*configv1.Credential{}
	if o != nil {
		for _, c := range configv1.Credentials(o) {
			found[c.Field] = c.Credential
		}
	}
	return found
}

// beyond returns the settings without those by which package allowed finds where a credential is sent.
func beyond(all map[string]string) map[string]string {
	rest := maps.Clone(all)
	for _, judged := range []string{"vendor", "endpoint", "region", "project", "url", "webhook.url",
		"slack.host", "email.host", "email.port", "email.tls", "issuer", "otlp.endpoint",
		"similar.url"} {
		delete(rest, judged)
	}
	return rest
}

func refuseMove(field string) error {
	if field == "" {
		return nil
	}
	return everythingFor(field, "to change who sees a credential, or what is believed,")
}
