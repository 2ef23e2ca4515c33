package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/config/crd"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
)

// schemaFile is the file that exports name as their schema.
const schemaFile = "modelgate.schema.json"

type configExportCmd struct {
	adminflags.AdminFlags
	Output string `short:"o" enum:"json,yaml" default:"yaml" help:"yaml or json."`

	Kubernetes bool   `help:"Print objects of Kubernetes (modelgate.dev), with Secrets in the place of stored credentials."`
	Namespace  string `placeholder:"NAMESPACE" help:"Their namespace. Default: that of kubectl."`
	TakeOver   bool   `help:"Let these objects take the place of what is stored."`
}

// Help is shown below the flags' summary.
func (configExportCmd) Help() string {
	return `Keys, accounts, tokens and what the gateway writes itself are left out. A credential that is stored is [redacted]: where it is stored, apply keeps it.

Example:
  modelgate config export > gateway.yaml
  modelgate config schema > ` + schemaFile + `
  modelgate config apply -f gateway.yaml --prune --dry-run`
}

// Run prints the objects that files describe, such that apply takes them back.
func (c configExportCmd) Run(ctx context.Context, stdout io.Writer) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	answer, err := client.Export(ctx)
	if err != nil {
		return admincli.Said(err)
	}
	if c.Output == adminflags.FormJSON {
		return adminflags.OutputFlags{Output: adminflags.FormJSON}.Show(stdout, answer.Objects, nil)
	}
	if c.Kubernetes {
		return c.objects(stdout, answer)
	}
	text := fmt.Appendf(nil, "# The configuration at revision %d.\n", answer.Revision)
	for _, document := range answer.Objects {
		if text, err = appendDocument(text, document); err != nil {
			return err
		}
	}
	_, err = stdout.Write(text)
	return err
}

// objects prints objects of Kubernetes.
func (c configExportCmd) objects(stdout io.Writer, answer adminapi.Export) error {
	text := fmt.Appendf(nil, "# The configuration at revision %d, without keys: Kubernetes makes others.\n", answer.Revision)
	for _, document := range answer.Objects {
		docs, err := configv1.ParseJSON(document)
		if err != nil {
			return fmt.Errorf("the answer has an object that this version does not read: %w", err)
		}
		for _, d := range docs {
			object, missing, ok, err := crd.Object(d.Object, c.Namespace, c.TakeOver)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			text = append(text, "---\n"...)
			for _, m := range missing {
				text = fmt.Appendf(text, "# Make the Secret %s with the key %s: the gateway shows no credential.\n", m.Secret, m.Key)
			}
			text = append(text, object...)
		}
	}
	_, err := stdout.Write(text)
	return err
}

// appendDocument adds an object as YAML. Its first line tells editors the schema.
func appendDocument(text []byte, document json.RawMessage) ([]byte, error) {
	docs, err := configv1.ParseJSON(document)
	if err != nil {
		return nil, fmt.Errorf("the answer has an object that this version does not read: %w", err)
	}
	for _, d := range docs {
		fields, err := configv1.MarshalYAML(d.Object)
		if err != nil {
			return nil, err
		}
		text = append(text, "---\n# yaml-language-server: $schema="+schemaFile+"\n"...)
		if bytes.Contains(fields, []byte(configv1.Redacted)) {
			text = append(text, "# "+configv1.Redacted+": the stored credential. Elsewhere, give a value, env, file, vault, secret_manager or workload_identity.\n"...)
		}
		text = append(text, fields...)
	}
	return text, nil
}

type configSchemaCmd struct {
	Kind string `arg:"" optional:"" predictor:"kinds" help:"Kind of object. Default: all kinds, by the member kind of a document."`
}

// Run prints the JSON Schema of a kind, or of all.
func (c configSchemaCmd) Run(stdout io.Writer) error {
	kinds := configv1.Kinds()
	if c.Kind != "" {
		kind, err := parseKind(c.Kind)
		if err != nil {
			return err
		}
		kinds = []configv1.Kind{kind}
	}
	text, err := configv1.Schema(kinds...)
	if err != nil {
		return err
	}
	_, err = stdout.Write(text)
	return err
}

// pruneFlags say what happens to objects that the files do not have.
type pruneFlags struct {
	Prune bool `help:"Also delete the objects that the files do not have. Keys, accounts, tokens and what the gateway writes itself stay."`
	Yes   bool `help:"With --prune: even if that deletes all objects of a kind."`
}

// apply stores the objects of files, and deletes others if that is wanted.
func (f pruneFlags) apply(ctx context.Context, client *adminapi.Client, docs []configv1.Document,
	dryRun bool) (adminapi.ApplyAnswer, error) {
	how := adminapi.PruneNone
	switch {
	case f.Prune && f.Yes:
		how = adminapi.PruneAll
	case f.Prune:
		how = adminapi.PruneSome
	case f.Yes:
		return adminapi.ApplyAnswer{}, admincli.Misused("--yes has a meaning only with --prune")
	}
	answer, err := client.ApplyPruning(ctx, cmdline.ObjectsOf(docs), how, dryRun)
	if err != nil {
		return answer, admincli.Said(err)
	}
	return answer, nil
}
