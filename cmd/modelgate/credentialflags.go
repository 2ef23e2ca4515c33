package main

import (
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/internal/allowed"
)

// credentialFlags say which variables and files the configuration may name, to be read or to be written.
type credentialFlags struct {
	CredentialEnv  []string `sep:"none" placeholder:"NAME=HOST,..." help:"Environment variable that objects may name as a credential, and the hosts to which it may be sent: api.example.com, *.example.com, api.example.com:8443, http://127.0.0.1:8000 or unix:///path. Without hosts, it is for certificates. Default: each vendor's own variable, for the vendor's own hosts. A flag for such a variable replaces these hosts. May be given more than once."`
	CredentialFile []string `sep:"none" default:"/etc/modelgate/" placeholder:"PATH=HOST,..." help:"The same for a file, or, with a trailing slash, for a folder and everything below it. May be given more than once."`
	AuditFile      []string `sep:"none" placeholder:"PATH" help:"File to which an AuditSink may append the audit log. May be given more than once."`
}

func (f credentialFlags) allowed() (*allowed.List, error) {
	list, err := allowed.New(vendors(), f.CredentialEnv, f.CredentialFile)
	if err == nil {
		list, err = list.WithAuditFiles(f.AuditFile)
	}
	if err != nil {
		return nil, admincli.Misused("%w", err)
	}
	return list, nil
}
