// Package offline has the commands that need no gateway: translate, backup and restore.
package offline

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/translate"
)

// TranslateCmd is the command translate.
type TranslateCmd struct {
	Request  translateRequestCmd  `cmd:"" help:"Print the request that the gateway would send to the provider. Exits with 3 if the provider cannot serve the request."`
	Response translateResponseCmd `cmd:"" help:"Print the response that the client would get for a provider's response."`
}

// translateFlags say which codec translates, and for what target.
type translateFlags struct {
	Provider    string `required:"" placeholder:"KIND" help:"Vendor, such as openai or anthropic."`
	Model       string `required:"" placeholder:"NAME" help:"Model: both the client's name of it and the provider's own."`
	Endpoint    string `enum:"chat,completions,embeddings,messages,responses,gemini,rerank" default:"chat" aliases:"client" help:"The client's API: chat, completions, embeddings, messages (Anthropic's), responses, gemini (Google's; the members model and stream stand for the path) or rerank (Cohere's)."`
	BaseURL     string `name:"base-url" placeholder:"URL" help:"Base URL of the provider, instead of the vendor's."`
	Region      string `placeholder:"NAME" help:"Region of the vendor's cloud."`
	Project     string `placeholder:"NAME" help:"Project in the vendor's cloud."`
	APIVersion  string `name:"api-version" placeholder:"VERSION" help:"Version of the vendor's API."`
	Unsupported string `enum:"reject,drop," default:"" placeholder:"reject|drop" help:"Handling of parameters that the provider does not support (reject)."`
	Config      string `placeholder:"FILE" help:"YAML file with the Provider as configured. Other flags override it."`
	Catalog     string `placeholder:"FILE" help:"YAML file with a Catalog, which overrides the built-in one."`
	File        string `arg:"" default:"-" help:"File with the body, or - for standard input."`
}

// kinds are other names of vendors that people use.
var kinds = map[string]string{"llama.cpp": "llamacpp", "generic": "compatible", "openai-compatible": "compatible"}

// target returns the vendor, and what requests of it are encoded for.
func (f translateFlags) target() (provider.Provider, provider.Target, error) {
	f.Provider = cmp.Or(kinds[f.Provider], f.Provider)
	p, ok := all.Providers()[f.Provider]
	if !ok {
		return p, provider.Target{}, admincli.Misused("there is no provider %q; the providers are %s", f.Provider,
			strings.Join(vendorNames(), ", "))
	}
	config := &configv1.Provider{}
	if f.Config != "" {
		var err error
		if config, err = readObject[*configv1.Provider](f.Config); err != nil {
			return p, provider.Target{}, err
		}
		if vendor := config.GetVendor(); vendor != f.Provider {
			return p, provider.Target{}, fmt.Errorf("%s: the provider's vendor is %q, not %q", f.Config, vendor, f.Provider)
		}
	}
	for _, flag := range []struct {
		value string
		field *string
	}{{f.BaseURL, &config.Endpoint}, {f.Region, &config.Region}, {f.Project, &config.Project},
		{f.APIVersion, &config.ApiVersion}} {
		if flag.value != "" {
			*flag.field = flag.value
		}
	}
	switch f.Unsupported {
	case "drop":
		config.UnsupportedParameters = configv1.UnsupportedParameters_DROP
	case "reject":
		config.UnsupportedParameters = configv1.UnsupportedParameters_REJECT
	}
	var own *configv1.Catalog
	if f.Catalog != "" {
		var err error
		if own, err = readObject[*configv1.Catalog](f.Catalog); err != nil {
			return p, provider.Target{}, err
		}
	}
	target := provider.Target{Last: true, Config: translate.Complete(p, config), Model: f.Model,
		Facts: catalog.New(own).Facts(p.Name, f.Model)}
	return p.For(config), target, nil
}

func vendorNames() []string {
	var names []string
	for name := range all.Providers() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// readObject returns the only object of a YAML file, which is a T.
func readObject[T configv1.Object](name string) (object T, err error) {
	text, err := cmdline.ReadFile(name, os.Stdin)
	if err != nil {
		return object, err
	}
	docs, err := configv1.ParseYAML(name, text)
	if err != nil {
		return object, err
	}
	if len(docs) == 1 {
		if object, ok := docs[0].Object.(T); ok {
			return object, nil
		}
	}
	return object, fmt.Errorf("%s: it must contain one object, a %s", name, configv1.Label(object))
}

// refuse prints the error that the client would get, or returns one that is not for clients.
func refuse(stdout io.Writer, err error) error {
	e, ok := errors.AsType[*openai.Error](err)
	if !ok {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "%s\n", e.AppendJSON(nil)); err != nil {
		return err
	}
	return cmdline.ErrRefused
}

type translateRequestCmd struct{ translateFlags }

// Run prints the provider's request as JSON.
func (c translateRequestCmd) Run(stdout io.Writer) error {
	p, target, err := c.target()
	if err != nil {
		return err
	}
	body, err := cmdline.ReadFile(c.File, os.Stdin)
	if err != nil {
		return err
	}
	r, err := translate.Parse(p, translate.Endpoint(c.Endpoint), translate.WithModel(body, c.Model))
	if err != nil {
		return refuse(stdout, err)
	}
	encoded, _, err := r.Encode(target)
	if err != nil {
		return refuse(stdout, err)
	}
	signed, err := translate.Sign(p, target.Config, encoded, time.Now())
	if err != nil {
		return err
	}
	_, err = stdout.Write(append(signed.AppendJSON(nil), '\n'))
	return err
}

type translateResponseCmd struct {
	translateFlags
	Status       int      `default:"200" help:"The response's status."`
	ContentType  string   `placeholder:"TYPE" help:"The response's content type. Default: the correct type."`
	Header       []string `short:"H" sep:"none" placeholder:"NAME:VALUE" help:"Additional header of the response. May be given more than once."`
	Stream       bool     `help:"The client requested a stream."`
	IncludeUsage bool     `help:"The client requested usage in the stream."`
	Request      string   `placeholder:"FILE" help:"The client's request, for codecs whose responses depend on it. Default: a minimal one."`
	ShowHeaders  bool     `short:"i" name:"include" help:"Print the status line and the headers before the body."`
	AllCuts      bool     `help:"Split the response body at every position, and into single bytes, and fail if the result differs."`
}

// Run prints the client's answer.
func (c translateResponseCmd) Run(stdout io.Writer) error {
	p, target, err := c.target()
	if err != nil {
		return err
	}
	var request []byte
	if c.Request != "" {
		if request, err = cmdline.ReadFile(c.Request, os.Stdin); err != nil {
			return err
		}
	}
	body, err := cmdline.ReadFile(c.File, os.Stdin)
	if err != nil {
		return err
	}
	e := translate.Endpoint(c.Endpoint)
	r, err := translate.Parse(p, e, translate.Ask(e, request, c.Model, c.Stream, c.IncludeUsage))
	if err != nil {
		return refuse(stdout, err)
	}
	encoded, answer, err := r.Encode(target)
	if err != nil {
		return refuse(stdout, err)
	}
	header, err := c.headers()
	if err != nil {
		return err
	}
	from := translate.Response{Status: c.Status, Header: header, Body: body}
	x := translate.Exchange{Provider: p, Request: r, Answer: answer, Dropped: encoded.Dropped, Adjusted: encoded.Adjusted,
		Created: time.Now().Unix()}
	reply := x.Respond(from, body)
	if c.AllCuts {
		if err := x.Cuts(from, reply); err != nil {
			return err
		}
	}
	if c.ShowHeaders {
		if _, err := stdout.Write(reply.Head()); err != nil {
			return err
		}
	}
	_, err = stdout.Write(reply.Body)
	return err
}

// headers returns the headers of the response.
func (c translateResponseCmd) headers() (http.Header, error) {
	h := http.Header{}
	for _, line := range c.Header {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, admincli.Misused("a header has the form NAME:VALUE, not %q", line)
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if c.ContentType != "" {
		h.Set("Content-Type", c.ContentType)
	}
	return h, nil
}
