package accounts_test

const aboutAccounts = `<!-- Written by go test ./controlplane/accounts -run TestTheDocumentHasTheTable -update; do not edit. -->

# Who may set what of an account

Several authorities write accounts. The admin API decides by this table at every write, whichever endpoint, form or
document it comes by, and a test tries every field with every authority:

* **tenant**: people and tokens whose rights are [within an organization or project](sign-in.md#people-of-an-organization)
* **operator**: people and tokens of the gateway, and the root token
* **directory**: the [SCIM client](sign-in.md#provisioning-by-scim) of an IdentityProvider
* **sign-in**: an IdentityProvider, when somebody [signs in](sign-in.md)
* **person**: whoever is signed in, of their own account

The last column says what becomes of the field when a directory or a sign-in takes over an account that another
authority has written.

| field | tenant | operator | directory | sign-in | person | when it is taken over |
|---|---|---|---|---|---|---|
`

const besideFields = `
## Taking over

| the account under the name | a sign-in | a directory |
|---|---|---|
| there is none | makes it | makes it |
| bound to the same subject | enters it | takes it over, without its subject, unless it is provisioned |
| bound to another subject of the issuer | is refused | takes it over, without its subject, unless it is provisioned |
| prepared: the issuer, no subject | takes it over | takes it over, unless it is provisioned |
| provisioned, no subject | takes it over, only through the provider that provisions it | is refused |
| made by people of a tenant, or with a password that they gave | takes it over | takes it over |
| any other: operators', emergency accounts, another issuer | is refused | is refused |

Whoever takes an account over gets nothing that they were not given. The password, all sessions, logins of command lines,
[admin tokens](admin.md) that the account has made, and [changes that it has asked for](approvals.md) end in the same
transaction, and the audit log says what was lost. Memberships and the role are those that the provider's groups give.
Only an account that operators have prepared keeps its memberships. A disabled account stays disabled, unless people of a
tenant have made it.
Keys of the gateway stay, and go to the new holder with the name: most often it is the same person. If it is somebody
else for certain, because the identity has another subject or issuer, they end [as if the first had left](#leaving).

A person of the company always gets in: an account that people of a tenant have made under the name does not keep them
out. Operators' accounts are not taken over, since a name at a provider must not undo what operators have decided. An
operator who wants it sets the identity of the account. Emergency accounts (` + "`break_glass`" + `) are entered through a
provider only if their identity has the subject.

The same holds if an operator changes the subject or the issuer of an account: it has a new holder. Its password is gone,
unless the same change gives one. A document that is applied again needs the subject: without it, the account is only
prepared again.

## Passwords that others know

* A password on an account with an identity is set only with the scope ` + "`*`" + `, because groups may give the account
  more rights than the author has. A person who knows the present password can change it.
* ` + "`tenant`" + ` notes the organization or project whose people made the account or gave its password last. With rights
  outside it, the account needs a new password in the same change.

## Names

Names of accounts are compared in one form: ASCII, in lower case. SCIM's userName and the claim of the name are put into
lower case. A name with anything but ASCII is refused, because Unicode makes one name of two. Names of groups decide roles
only if they are equal byte by byte. Issuers are compared without the case of the host and without a slash at the end;
subjects are compared byte by byte. No account is called ` + "`root`" + `, which is the name of the root token.

After an account was deleted, an account of the same name is another one: nothing of the first comes back.
People of a tenant cannot delete an account that has an identity and is disabled, because the next sign-in would make
one that is not. If a directory deletes an account that is disabled here, the account stays, disabled and without rights,
and the directory no longer sees it. Made again, it is disabled still. A directory cannot rename it either.

A membership, an admin token, the mapping of groups and a webhook name organizations and projects that there are. They
can be made in the same change.

## Leaving

Keys and tokens end with the person who made them. It does not matter who changes the account, and how: the dashboard, the
API, ` + "`config apply`" + `, a directory (` + "`active`" + `, ` + "`DELETE`" + `, groups, the mapping of groups), or a sign-in with fewer
groups. What follows is part of the same transaction.

| what a person has made | disabled, or without the right to it | deleted, or somebody else has the account | back, as the same account | renamed by a directory |
|---|---|---|---|---|
| keys (` + "`owner`" + `) | disabled, kept or handed over | likewise, and have no owner | enabled again, if this has disabled them | go along |
| admin tokens (` + "`owner`" + `), also for SCIM | have the scopes that the person has, or are refused | deleted | have their scopes again | go along |
| sessions, command lines | end | end | do not come back | end |
| keys of the playground | as other keys | as other keys | as other keys, within their hour | go along |
| changes that wait for approval | cannot be approved | end | can be approved again | end |
| changes that the person has approved | stay | stay | | |
| batches, background responses | what is left of them fails with 401, as the key does | likewise | new requests work | go on |
| fine-tuning jobs, files, stored responses | are the tenant's, and stay | likewise | | |
| sinks, webhooks, rules, providers | are the gateway's, and stay | likewise | | |

Whoever signs in through an IdentityProvider has left when that is deleted or has another issuer, unless another
one has the issuer (for accounts of a directory, the same name): nobody would say later that they have left. They lose
the role and the memberships in the same transaction, and get those of their groups when they sign in again. Accounts
with a password, emergency accounts and prepared ones stay as they are. To keep people out for a while, disable the
provider. An organization or a project is deleted only when it has no keys, and no account, token, mapping of groups
or webhook reaches into it.

A person has the right to a key with a role that may change keys, or with a membership in its organization or project as
MEMBER or ADMIN. A token never has more rights than the account that made it has when it is used. Links for the first
sign-in and the root token have no person: whoever has had the data folder has had both.

An organization says what becomes of its keys:

` + "```yaml" + `
kind: Organization
name: acme
keys_of_leavers: KEEP               # default: DISABLE
successor: ann@acme.example         # gets them instead, if she may have them; they go on
` + "```" + `

By default they are disabled: nobody sees who has a copy of a key, and a key of somebody who has left is most often in
their hands alone. To keep a service from stopping, make its key with an admin token of a program or with the root token:
it has no owner, and ends with nobody. Or name a successor. A key without an organization is disabled.

[What needs attention](dashboard.md#what-needs-attention), ` + "`modelgate status`, `modelgate doctor`" + ` and the audit log say who
has left, since when, and which keys and tokens that concerns. Keys that were left behind before this version work as
before, and are named there. To undo it, enable the key (` + "`modelgate key enable ID`" + `): it is then of whoever enables
it. A member can do it only with their own. If etcd is full, an account can be deleted, but its keys stay as they are.
`
