package accounts

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A Say is how far an authority may set a field.
type Say string

// Says.
const (
	No      Say = "no"
	Yes     Say = "yes"
	New     Say = "of a new account"
	Within  Say = "within the tenant"      // the admin API checks it of the whole account
	Rights  Say = "up to their own rights" // likewise
	Local   Say = "if it has no identity"  // neither before nor after
	All     Say = "with `*` if it has one" // an identity
	Own     Say = "of its own issuer"      // Find says whether the account is theirs to take
	Groups  Say = "what groups give"       // the mapping of the IdentityProvider
	Present Say = "who knows the present"  // of a password
	Gateway Say = "the gateway alone"      // it writes the field whoever asks
)

// A Row says who may set a field of an account, and what becomes of it when somebody else takes the account over.
type Row struct {
	Field                                       string
	Tenant, Operator, Directory, SignIn, Person Say
	Taken                                       string
}

// Table returns a row for each field of an account. It is the table of docs/access.md. A test fails for a field
// that has no row; nobody can write such a field.
func Table() []Row {
	const dropped = "dropped"
	return []Row{
		{"name", New, New, Yes, New, No, "stays"},
		{"display_name", Yes, Yes, Yes, Yes, No, "dropped, unless operators prepared the account"},
		{"role", No, Rights, Groups, Groups, No, dropped},
		{"memberships", Within, Rights, Groups, Groups, No, "dropped, unless operators prepared the account"},
		{"identity", No, Yes, Own, Own, No, "that of the new authority"},
		{"provisioning", No, Yes, Own, No, No, "that of the directory"},
		{"password", Local, All, No, No, Present, dropped},
		{"disabled", Local, Yes, No, No, No, "dropped if people of a tenant made the account"},
		{"read_bodies", No, Rights, No, No, No, dropped},
		{"break_glass", No, Yes, No, No, No, "such an account is never taken over"},
		{"tenant", Gateway, Gateway, Gateway, Gateway, Gateway, dropped},
		{"created_at", New, New, New, New, No, "the time of the change, which ends every session"},
	}
}

func (r Row) by(a Authority) Say {
	switch a {
	case Tenant:
		return r.Tenant
	case Operator:
		return r.Operator
	case Directory:
		return r.Directory
	case SignIn:
		return r.SignIn
	case Person:
		return r.Person
	}
	return No
}

// root is the name under which the token of the data directory acts.
const root = "root"

// A Write is a change of an account. Was is nil if it is new.
type Write struct {
	By         Authority
	Everything bool // the author has the scope *
	Was, Now   *configv1.Account
}

// Refused returns why the authority may not make the change, and the field; empty if it may.
func (w Write) Refused() (field, why string) {
	if w.By == Directory || w.By == SignIn {
		f := Find(w.Was, w.Now.GetIdentity())
		if f == Others || f == SignedIn && w.By == SignIn {
			return "name", fmt.Sprintf("the account %s is not of this identity provider", w.Now.GetName())
		}
		if field := w.lifted(f); field != "" {
			return field, w.By.String() + " cannot end the " + field + " of an account"
		}
	}
	if w.Was == nil && w.Now.GetName() == root {
		return "name", "no account is called " + root + ", which is the name of the root token"
	}
	was, now := w.Was.ProtoReflect(), w.Now.ProtoReflect()
	fields := now.Descriptor().Fields()
	changed := map[string]protoreflect.FieldDescriptor{}
	for i := range fields.Len() {
		if fd := fields.Get(i); !was.Get(fd).Equal(now.Get(fd)) {
			changed[rowOf(fd)] = fd
		}
	}
	for _, r := range Table() {
		fd := changed[r.Field]
		delete(changed, r.Field)
		if fd != nil && !w.allows(r.by(w.By), fd) {
			return r.Field, w.By.String() + " " + r.by(w.By).refusal() + " the " + r.Field + " of an account"
		}
	}
	for field := range changed {
		return field, "nobody sets the " + field + " of an account"
	}
	return "", ""
}

// lifted returns the field of what stays whoever takes an account over, if the change drops it: the account was found
// otherwise a moment ago.
func (w Write) lifted(f Finding) string {
	if f == Theirs || !NewHolder(w.Was, w.Now) {
		return ""
	}
	switch rest := f.Rest(w.Was); {
	case rest.GetDisabled() && !w.Now.GetDisabled():
		return "disabled"
	case w.By == SignIn && rest.GetProvisioning() != nil && w.Now.GetProvisioning() == nil:
		return "provisioning"
	}
	return ""
}

// String returns what the authority is called.
func (a Authority) String() string {
	return map[Authority]string{Tenant: "people of a tenant", Operator: "operators", Directory: "a directory",
		SignIn: "a sign-in", Person: "people themselves"}[a]
}

// refusal returns the verb of a refusal.
func (s Say) refusal() string {
	switch s {
	case Local:
		return "can set, only while it has no identity,"
	case All:
		return "can set, while it has an identity, only with the scope *,"
	}
	return "cannot set"
}

// rowOf returns the row of a field. A password is stored as its hash.
func rowOf(fd protoreflect.FieldDescriptor) string {
	if fd.Name() == "password_hash" {
		return "password"
	}
	return string(fd.Name())
}

func (w Write) allows(say Say, fd protoreflect.FieldDescriptor) bool {
	identified := w.Was.GetIdentity() != nil || w.Now.GetIdentity() != nil
	cleared := !w.Now.ProtoReflect().Has(fd)
	switch say {
	case No:
		// who takes an account over drops what others gave
		return cleared && (w.By == Directory || w.By == SignIn) && NewHolder(w.Was, w.Now)
	case New:
		return NewHolder(w.Was, w.Now)
	case Local:
		return !identified
	case All:
		return cleared || w.Now.GetIdentity() == nil || w.Everything
	}
	return true
}
