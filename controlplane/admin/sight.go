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
	maps.Copy(all, looksOfTraffic())
	maps.Copy(all, looksOfPeople())
	return all
}

// looksOfHolders are of what has a credential, or is believed.
func looksOfHolders() map[string]look {
	return map[string]look{
		"Provider.name": {unseen, "sealed credentials open under their own name alone"},
		"Provider.vendor": {decides,
			"its own endpoint, the header or signature that carries the credential, where it is exchanged"},
		"Provider.endpoint":               {decides, "where it is sent, and whether in clear"},
		"Provider.headers":                {decides, "proxies of vendors send a request on to where a header says"},
		"Provider.models":                 {unseen, "names in a list"},
		"Provider.allow_unlisted_models":  {unseen, "which models clients may name"},
		"Provider.full_names_only":        {unseen, "how clients may name models"},
		"Provider.unsupported_parameters": {unseen, "how requests are translated"},
		"Provider.disabled":               {unseen, "whether it is sent, not where to"},
		"Provider.region":                 {decides, "a part of the vendor's host"},
		"Provider.project":                {decides, "whose account of the vendor's cloud it is sent for"},
		"Provider.api_version":            {unseen, "paths and a parameter at the same host"},
		"Provider.untouched_answers":      {unseen, "answers with the status 200 alone; errors are rewritten"},
		"Provider.native_batches":         {unseen, "other paths at the same host"},
		"Provider.trace_context":          {unseen, "ids, to the same host"},
		"Credential.*": {secrecy,
			"one in clear is sealed and never shown; a variable or a file only as the flags of the process allow"},
		"UpstreamTLS.*":        {decides, "who is believed to be the endpoint"},
		"Timeouts.*":           {unseen, "how long is waited"},
		"Concurrency.*":        {unseen, "how many at once"},
		"Webhook.name":         {unseen, "as of a Provider"},
		"Webhook.organization": {unseen, "whose jobs are told of, signed"},
		"Webhook.project":      {unseen, "likewise"},
		"Webhook.url":          {decides, "who gets what is signed with the secret, and could show it elsewhere"},
		"Webhook.events":       {unseen, "which events are told"},
		"Webhook.disabled":     {unseen, "whether any are"},
		"Certificate.name":     {unseen, "as of a Provider"},
		"Certificate.chain":    {unseen, "it has to belong to the key, which Envoy alone gets"},
		"Certificate.chain_file": {unseen,
			"likewise; a file only as the flags allow, and named by whoever may do everything"},
		"JobService.name":    {unseen, "always default"},
		"JobService.address": {decides, "who gets clients' files and the names of their keys"},
		"JobService.listen":  {decides, "who reaches the listener that believes for which key it is asked"},
		"MutualTLS.*":        {decides, "who is believed to be the job service"},
	}
}

// looksOfTraffic are of what leads requests, limits and prices them.
func looksOfTraffic() map[string]look {
	return map[string]look{
		"Route.name":           {unseen, "what it is called"},
		"Route.path_prefix":    {unseen, "which paths of clients are passed"},
		"Route.provider":       {unseen, "to whom; its credential goes to its own endpoint alone"},
		"Route.rewrite_prefix": {unseen, "a path below that endpoint, which it cannot leave"},
		"Model.name":           {unseen, "what clients call it"},
		"Model.owned_by":       {unseen, "what lists say"},
		"Model.created_at":     {unseen, "what lists say"},
		"Model.organization":   {unseen, "who may use it"},
		"Model.project":        {unseen, "who may use it"},
		"Target.provider":      {unseen, "who is asked; each gets its own credential"},
		"Target.model":         {unseen, "what it is asked for"},
		"Target.weight":        {unseen, "how often"},
		"Target.priority":      {unseen, "when"},
		"FineTuned.*":          {unseen, "where a model comes from"},
		"Retry.*":              {unseen, "how often is asked; before another provider every credential is stripped"},
		"Gateway.name":         {unseen, "what it is called"},
		"Gateway.address":      {unseen, "where clients come in"},
		"Gateway.port":         {unseen, "where clients come in"},
		"Gateway.certificate":  {unseen, "whose name is shown; Envoy has the keys of all"},
		"Gateway.trusted_hops": {unseen,
			"which address of a client is believed; a key bound to addresses is still needed"},
		"Gateway.max_request_bytes": {unseen, "how much"},
		"Gateway.plain_http_port":   {unseen, "it refuses; a client that writes its key there has told the network already"},
		"AddressLimit.*":            {unseen, "how often"},
		"Cors.*":                    {unseen, "which pages browsers let ask; a page has a key of its own"},
		"Limit.*":                   {unseen, "how much"},
		"Budget.*":                  {unseen, "how much"},
		"Quotas.*":                  {unseen, "how much"},
		"RateLimit.*":               {unseen, "how much"},
		"RateLimitDescriptor.*":     {unseen, "of whom"},
		"RateLimitPolicy.*":         {unseen, "how much"},
		"Catalog.*":                 {unseen, "what is known of models"},
		"ModelFacts.*":              {unseen, "what is known of models"},
		"Capabilities.*":            {unseen, "how requests are translated"},
		"Price.*":                   {unseen, "what is charged"},
		"PriceTier.*":               {unseen, "what is charged"},
		"ServiceTierPrice.*":        {unseen, "what is charged"},
		"ToolPrice.*":               {unseen, "what is charged"},
		"Listing.*":                 {unseen, "names in a list"},
		"ListedModel.*":             {unseen, "names in a list"},
	}
}

// looksOfPeople are of who uses the gateway, and who administers it.
func looksOfPeople() map[string]look {
	return map[string]look{
		"Key.*":                   {unseen, "what clients may use; its hash cannot be written"},
		"RetiredKey.*":            {unseen, "likewise"},
		"Organization.*":          {unseen, "what keys share"},
		"Project.*":               {unseen, "what keys share"},
		"Account.name":            {unseen, "who it is"},
		"Account.display_name":    {unseen, "who it is"},
		"Account.role":            {rights, "only whoever has all of them gives them"},
		"Account.password":        {rights, "likewise, of whose account it is"},
		"Account.password_hash":   {rights, "cannot be written"},
		"Account.disabled":        {rights, "likewise, of whose account it is"},
		"Account.created_at":      {unseen, "when it was made"},
		"AdminToken.name":         {unseen, "its id"},
		"AdminToken.display_name": {unseen, "what it is for"},
		"AdminToken.hash":         {rights, "cannot be written"},
		"AdminToken.hint":         {unseen, "to recognise it by"},
		"AdminToken.scopes":       {rights, "only whoever has them gives them"},
		"AdminToken.expires_at":   {rights, "likewise, of whose token it is"},
		"AdminToken.created_at":   {unseen, "when it was made"},
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
		named := c.Credential.GetEnv() != "" || c.Credential.GetFile() != ""
		field := ""
		switch {
		case proto.Equal(c.Credential, kept[c.Field]):
			field = moved(now, before)
		case named: // as a new one: the flags of the process bound where it goes, and nothing bounds the rest
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
	for _, judged := range []string{"vendor", "endpoint", "region", "project", "url"} {
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
