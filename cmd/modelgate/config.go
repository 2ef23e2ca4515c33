package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// adminTimeout is longer than the admin API takes for any answer.
const adminTimeout = 30 * time.Second

// errDifferent ends a diff that found differences, so that scripts can tell by the exit code.
var errDifferent = errors.New("the files differ from what is stored")

type configCmd struct {
	Validate configValidateCmd `cmd:"" help:"Check files, without a gateway. Whether what they refer to exists is checked by diff and apply."`
	Apply    configApplyCmd    `cmd:"" help:"Store the objects of files, all or none."`
	Diff     configDiffCmd     `cmd:"" help:"Show what apply would change. Exits with 1 where there is a difference."`
	Get      configGetCmd      `cmd:"" help:"Print stored objects."`
	Delete   configDeleteCmd   `cmd:"" help:"Delete an object."`
}

// adminFlags find the admin API of a gateway.
type adminFlags struct {
	Data   string `default:"data" placeholder:"DIR" help:"Data folder of a gateway on this machine (${default})."`
	Server string `placeholder:"URL" help:"URL of the admin API, instead of the one in the data folder."`
	Token  string `env:"MODELGATE_TOKEN" placeholder:"TOKEN" help:"Admin token, instead of the one in the data folder."`
}

func (f adminFlags) client() (*adminapi.Client, error) {
	server, err := f.orFile(f.Server, fileAdmin, "is the gateway running? Say where with --data or --server")
	if err != nil {
		return nil, err
	}
	token, err := f.orFile(f.Token, fileAdminToken, "give the admin token with --token or $MODELGATE_TOKEN")
	if err != nil {
		return nil, err
	}
	// A command makes one request, so there is no connection to keep.
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	return adminapi.NewClient(server, token, &http.Client{Timeout: adminTimeout, Transport: transport}), nil
}

// orFile returns the flag, or what the file of the data folder holds.
func (f adminFlags) orFile(flag, file, hint string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	text, err := os.ReadFile(filepath.Join(f.Data, file))
	if err != nil {
		return "", fmt.Errorf("finding the gateway: %w (%s)", err, hint)
	}
	return strings.TrimSpace(string(text)), nil
}

// said reduces an error of the admin API to its message: a person has no use for the rest.
func said(err error) error {
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return errors.New(e.Message)
	}
	return err
}

// fileFlags name files of objects.
type fileFlags struct {
	Filename []string `short:"f" sep:"none" placeholder:"FILE" help:"YAML or JSON file, - for the standard input. May be given more than once."`
	File     []string `arg:"" optional:"" help:"More files."`
}

// read returns the documents of all files. What is wrong in any of them is reported at once.
func (f fileFlags) read(stdin io.Reader) ([]configv1.Document, error) {
	names := append(append([]string(nil), f.Filename...), f.File...)
	if len(names) == 0 {
		return nil, errors.New("give at least one file with -f, or - for the standard input")
	}
	var docs []configv1.Document
	var errs configv1.Errors
	for _, name := range names {
		text, err := readFile(name, stdin)
		if err != nil {
			return nil, err
		}
		found, err := configv1.ParseYAML(name, text)
		wrong, ok := errors.AsType[configv1.Errors](err)
		if err != nil && !ok {
			return nil, err
		}
		errs = append(errs, wrong...)
		for _, d := range found {
			errs = append(errs, d.Validate(knownVendor)...)
		}
		docs = append(docs, found...)
	}
	errs = append(errs, configv1.ValidateConflicts(objectsOf(docs))...)
	return docs, errs.Err()
}

func readFile(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		text, err := io.ReadAll(stdin)
		if err != nil {
			return nil, fmt.Errorf("reading the standard input: %w", err)
		}
		return text, nil
	}
	return os.ReadFile(name)
}

func objectsOf(docs []configv1.Document) []configv1.Object {
	objects := make([]configv1.Object, len(docs))
	for i := range docs {
		objects[i] = docs[i].Object
	}
	return objects
}

// knownVendor finds a vendor for the validation of providers.
func knownVendor(name string) (configv1.Vendor, bool) {
	v, ok := vendors()[name]
	known := configv1.Vendor{Exchanges: v.Exchange != nil}
	if v.BaseURL != nil {
		known.Endpoint = func(p *configv1.Provider) error {
			_, err := v.Endpoint(p)
			return err
		}
	}
	return known, ok
}

type configValidateCmd struct{ fileFlags }

// Run checks the files and says how many objects they hold.
func (c configValidateCmd) Run(stdout io.Writer) error {
	docs, err := c.read(os.Stdin)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%d objects are valid\n", len(docs))
	return err
}

type configApplyCmd struct {
	adminFlags
	fileFlags
}

// Run applies the files and prints a line for each object.
func (c configApplyCmd) Run(ctx context.Context, stdout io.Writer) error {
	answer, err := applyFiles(ctx, c.adminFlags, c.fileFlags, false)
	if err != nil {
		return err
	}
	for _, change := range answer.Changes {
		if _, err := fmt.Fprintln(stdout, change.Kind, change.Name, change.Action); err != nil {
			return err
		}
	}
	return nil
}

type configDiffCmd struct {
	adminFlags
	fileFlags
}

// Run prints a unified diff of what is stored and the files.
func (c configDiffCmd) Run(ctx context.Context, stdout io.Writer) error {
	answer, err := applyFiles(ctx, c.adminFlags, c.fileFlags, true)
	if err != nil {
		return err
	}
	different := false
	for _, change := range answer.Changes {
		different = different || change.Action != adminapi.Unchanged
		if _, err := io.WriteString(stdout, change.Diff); err != nil {
			return err
		}
	}
	if different {
		return errDifferent
	}
	return nil
}

func applyFiles(ctx context.Context, gateway adminFlags, files fileFlags, dryRun bool) (adminapi.ApplyAnswer, error) {
	docs, err := files.read(os.Stdin)
	if err != nil {
		return adminapi.ApplyAnswer{}, err
	}
	client, err := gateway.client()
	if err != nil {
		return adminapi.ApplyAnswer{}, err
	}
	answer, err := client.Apply(ctx, objectsOf(docs), dryRun)
	return answer, said(err)
}

type configGetCmd struct {
	adminFlags
	Output string `short:"o" enum:"yaml,json,name" default:"yaml" help:"yaml, json or name."`
	Kind   string `arg:"" help:"Kind of object, such as providers."`
	Name   string `arg:"" optional:"" help:"Name of one object. Without: all of the kind."`
}

// Run prints objects such that apply takes them back.
func (c configGetCmd) Run(ctx context.Context, stdout io.Writer) error {
	kind, err := parseKind(c.Kind)
	if err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	if c.Name == "" {
		items, err := client.List(ctx, kind)
		if err != nil {
			return said(err)
		}
		return printItems(stdout, c.Output, items)
	}
	item, err := client.Get(ctx, kind, c.Name)
	if err != nil {
		return said(err)
	}
	return printItems(stdout, c.Output, []adminapi.Item{item})
}

func parseKind(s string) (configv1.Kind, error) {
	kind, ok := configv1.FindKind(s)
	if !ok {
		return kind, fmt.Errorf("there is no kind %q; there are %s", s, configv1.KindNames())
	}
	return kind, nil
}

func printItems(stdout io.Writer, format string, items []adminapi.Item) error {
	for i, item := range items {
		text := []byte(item.Name)
		var err error
		switch format {
		case "yaml":
			text, err = yamlOf(item, i > 0)
		case "json":
			text, err = item.MarshalJSON()
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(stdout, strings.TrimSuffix(string(text), "\n")); err != nil {
			return err
		}
	}
	return nil
}

// yamlOf returns a document; what is wrong with the object stands above it.
func yamlOf(item adminapi.Item, further bool) ([]byte, error) {
	var head string
	if further {
		head = "---\n"
	}
	if item.Status.Error != "" {
		head += "# error: " + strings.ReplaceAll(item.Status.Error, "\n", "\n# ") + "\n"
	}
	text, err := configv1.MarshalYAML(item.Object)
	return append([]byte(head), text...), err
}

type configDeleteCmd struct {
	adminFlags
	Kind string `arg:"" help:"Kind of object, such as provider."`
	Name string `arg:"" help:"Name of the object."`
}

// Run deletes one object.
func (c configDeleteCmd) Run(ctx context.Context, stdout io.Writer) error {
	kind, err := parseKind(c.Kind)
	if err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := client.Delete(ctx, kind, c.Name); err != nil {
		return said(err)
	}
	_, err = fmt.Fprintln(stdout, kind.Name, c.Name, "deleted")
	return err
}
