package accounts

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// MayOwn reports whether a person, who may be nil, has the right to make and have a key.
func MayOwn(a *configv1.Account, k *configv1.Key) bool {
	if a == nil || a.Barred() {
		return false
	}
	writers := []configv1.Role{configv1.Role_OPERATOR, configv1.Role_ADMIN, configv1.Role_OWNER}
	return slices.Contains(writers, a.GetRole()) ||
		slices.ContainsFunc(a.GetMemberships(), func(m *configv1.Membership) bool {
			return m.GetRole() != configv1.Role_VIEWER && m.GetOrganization() == k.GetOrganization() &&
				(m.GetProject() == "" || m.GetProject() == k.GetProject())
		})
}

// A Move is a change of an account. Was is nil if the account is new, and Now if it is deleted. They have different
// names if a directory renames the account.
type Move struct{ Was, Now *configv1.Account }

// Concerns reports whether a move can change what becomes of keys and tokens. Of most changes it is false.
func (m Move) Concerns() bool {
	return m.Was == nil || m.Now == nil || m.Was.GetName() != m.Now.GetName() || NewHolder(m.Was, m.Now) ||
		m.Was.GetRole() != m.Now.GetRole() || m.Was.Barred() != m.Now.Barred() ||
		!slices.EqualFunc(m.Was.GetMemberships(), m.Now.GetMemberships(),
			func(a, b *configv1.Membership) bool { return proto.Equal(a, b) })
}

// Another reports whether somebody else has the account for certain. A directory does not say to whom it gives an
// account, and a first sign-in is mostly that of the person for whom the account was made.
func (m Move) Another() bool {
	a, b := m.Was.GetIdentity(), m.Now.GetIdentity()
	if m.Now == nil || a == nil || !NewHolder(m.Was, m.Now) {
		return m.Now == nil
	}
	return b == nil || !configv1.SameIssuer(a.GetIssuer(), b.GetIssuer()) ||
		a.GetSubject() != "" && b.GetSubject() != ""
}

// Key returns what a move makes of a key that is, or was, of the account; nil: it stays as it is. Of is the key's
// organization, which may be nil, and successor the account that it names.
//
// A key of somebody who leaves is disabled, kept or handed over. One that was disabled so comes back with its owner.
// An account of the same name that is made later is not its owner.
func (m Move) Key(k *configv1.Key, of *configv1.Organization, successor *configv1.Account,
	at time.Time) *configv1.Key {
	now := proto.CloneOf(k)
	switch {
	case m.Was == nil: // somebody else had the name
		now.Owner = ""
		if k.GetLeft() == nil && !k.GetDisabled() {
			now.Left = &configv1.Departure{Account: k.GetOwner(), At: timestamppb.New(at)}
		}
		return now
	case m.Another():
		now.Owner = ""
	default:
		now.Owner = m.Now.GetName()
		if k.GetLeft().GetAccount() == m.Was.GetName() {
			now.Left.Account = now.GetOwner() // it may be renamed
		}
		if MayOwn(m.Now, k) {
			m.back(now)
			return changed(k, now)
		}
	}
	if !k.GetDisabled() && k.GetLeft().GetAccount() != m.Was.GetName() {
		now.Left = &configv1.Departure{Account: m.Was.GetName(), At: timestamppb.New(at)}
		switch {
		case successor.GetName() != m.Was.GetName() && successor.GetName() != m.Now.GetName() && MayOwn(successor, k):
			now.Owner = successor.GetName()
		case of.GetKeysOfLeavers() != configv1.KeysOfLeavers_KEEP:
			now.Disabled = true
		}
	}
	return changed(k, now)
}

// back gives a key that ended with its owner's departure to the owner who is back. It does not come back to a new
// holder of the account, who may be somebody else.
func (m Move) back(k *configv1.Key) {
	switch {
	case k.GetLeft().GetAccount() != m.Now.GetName():
	case k.GetDisabled() && NewHolder(m.Was, m.Now):
		k.Owner = ""
	default:
		k.Left, k.Disabled = nil, false
	}
}

func changed(was, now *configv1.Key) *configv1.Key {
	if proto.Equal(was, now) {
		return nil
	}
	return now
}

// Enabled changes a key that somebody enables, or disables: the effects of a departure are decided anew. If its
// owner cannot have the key, it belongs to whoever enables it. By is empty for a token.
func Enabled(k, was *configv1.Key, owner *configv1.Account, by string) {
	if k.GetDisabled() == was.GetDisabled() {
		k.Left = was.GetLeft()
		return
	}
	k.Left = nil
	if !k.GetDisabled() && (k.GetOwner() != "" || was.GetLeft() != nil) && !MayOwn(owner, k) {
		k.Owner = by
	}
}
