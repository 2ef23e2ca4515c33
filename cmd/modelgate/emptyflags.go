package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// givenEmpty refuses what is given empty to a command that administers, as by a script whose variable is not set: left
// out it would mean every model, no limit, no budget, or the gateway of this machine.
func givenEmpty(command *kong.Context) error {
	of, _, _ := strings.Cut(command.Command(), " ")
	if !slices.Contains([]string{"account", "config", "key", "org", "project", "token"}, of) {
		return nil
	}
	for _, p := range command.Path {
		switch {
		case p.Flag != nil && isEmpty(p.Flag.Target):
			return fmt.Errorf("--%s is empty: give it a value, or leave it out", p.Flag.Name)
		case p.Positional != nil && isEmpty(p.Positional.Target):
			return fmt.Errorf("%s is empty: give it a value", p.Positional.Summary())
		}
	}
	return nil
}

// isEmpty reports whether there is no text in a text or a list of texts.
func isEmpty(v reflect.Value) bool {
	if v.Kind() == reflect.Slice {
		for i := range v.Len() {
			if !isEmpty(v.Index(i)) {
				return false
			}
		}
		return true
	}
	return v.Kind() == reflect.String && strings.TrimSpace(v.String()) == ""
}
