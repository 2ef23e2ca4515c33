// Package all lists every vendor.
//
// Do not add vendors here by hand. A vendor is a folder of internal/provider/vendors that exports Provider(). `go
// generate` writes list.go from the folders.
package all

import "github.com/modelgate/modelgate/internal/provider"

//go:generate go run ../../listgen -package all -folders internal/provider/vendors -function Provider -o list.go
//go:generate go run gendocs.go -o ../../../docs/providers.md
//go:generate go run gendocs.go -readme -o ../../../README.md

// Providers returns every vendor by its name. The map is the caller's.
func Providers() map[string]provider.Provider {
	byName := map[string]provider.Provider{}
	for _, p := range list() {
		byName[p.Name] = p
	}
	return byName
}
