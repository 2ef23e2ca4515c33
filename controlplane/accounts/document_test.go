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
Keys of the gateway stay: they are the tenant's, not the person's.

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

After an account was deleted, an account of the same name is another one: sessions of the first do not come back, its
tokens go on as nobody's, and the changes that it has asked for end. People of a tenant cannot take a name under which
there are tokens.
`
