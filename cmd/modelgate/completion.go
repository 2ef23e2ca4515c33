package main

import (
	"cmp"
	"context"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"github.com/posener/complete"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/controlplane/authz"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"${enum}."`
}

// Help is shown below the flags' summary.
func (completionCmd) Help() string {
	return `Examples:
  bash:  source <(modelgate completion bash)
  zsh:   source <(modelgate completion zsh)
  fish:  modelgate completion fish | source`
}

// Run prints what a shell has to read so that it completes command lines.
func (c completionCmd) Run(k *kong.Context) error {
	return (&kongcompletion.Completion{Shell: c.Shell, Code: true}).Run(k)
}

// completed answers a shell that asks how a command line goes on, which it does through the environment. It reports
// whether one did.
func completed(ctx context.Context, parser *kong.Kong) (done bool) {
	if os.Getenv("COMP_LINE") == "" {
		return false
	}
	kongcompletion.Register(parser,
		kongcompletion.WithExitFunc(func(int) { done = true }),
		kongcompletion.WithPredictors(map[string]complete.Predictor{
			"kinds":   complete.PredictSet(kindNames()...),
			"scopes":  complete.PredictSet(scopeNames()...),
			"keys":    predictNames(ctx, func(complete.Args) string { return configv1.KeyKind().Name }),
			"models":  predictNames(ctx, func(complete.Args) string { return configv1.KindOf((*configv1.Model)(nil)).Name }),
			"objects": predictNames(ctx, func(a complete.Args) string { return a.LastCompleted }),
		}))
	return done
}

func kindNames() []string {
	var names []string
	for _, k := range configv1.Kinds() {
		names = append(names, strings.ToLower(k.Name), k.Plural)
	}
	return names
}

func scopeNames() []string {
	var names []string
	for _, s := range []authz.Scope{
		authz.ConfigRead, authz.ConfigWrite, authz.KeysRead, authz.KeysWrite, authz.UsageRead, authz.JobsRead,
		authz.JobsWrite,
		authz.AuditRead,
		authz.StatusRead, authz.AdminsRead, authz.AdminsWrite, authz.Playground, authz.Everything,
	} {
		names = append(names, string(s))
	}
	return names
}

const (
	// completionPatience is how long somebody waits who has pressed Tab.
	completionPatience = time.Second
	// completionMost is how many names still help a reader.
	completionMost = 200
)

// predictNames completes with the names of objects, where the gateway answers quickly.
func predictNames(ctx context.Context, kindOf func(complete.Args) string) complete.Predictor {
	return complete.PredictFunc(func(a complete.Args) []string {
		kind, ok := configv1.FindKind(kindOf(a))
		if !ok {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, completionPatience)
		defer cancel()
		client, err := flagsOf(a.All).Client()
		if err != nil {
			return nil
		}
		page, err := client.ListPage(ctx, kind, adminapi.ListOptions{Limit: completionMost})
		if err != nil {
			return nil
		}
		var names []string
		for _, i := range page.Items {
			names = append(names, i.Name)
		}
		return names
	})
}

// flagsOf reads where the gateway is from the words of a command line that is not complete.
func flagsOf(words []string) adminflags.AdminFlags {
	value := func(flag, otherwise string) string {
		for i, word := range words {
			if v, ok := strings.CutPrefix(word, flag+"="); ok {
				return v
			}
			if word == flag && i+1 < len(words) {
				return words[i+1]
			}
		}
		return otherwise
	}
	return adminflags.AdminFlags{
		Data:      value("--data", cmp.Or(os.Getenv("MODELGATE_DATA"), "data")),
		Server:    value("--server", os.Getenv("MODELGATE_SERVER")),
		CA:        value("--ca", os.Getenv("MODELGATE_CA")),
		Token:     value("--token", os.Getenv("MODELGATE_TOKEN")),
		TokenFile: value("--token-file", os.Getenv("MODELGATE_TOKEN_FILE")),
	}
}
