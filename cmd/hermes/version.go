package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	System  string `json:"system"`
	Wazero  string `json:"wazero"`
}

func (a *app) versionCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versionInfo{Version: version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Wazero: moduleVersion("github.com/tetratelabs/wazero")}
			if a.json {
				return a.printJSON(v)
			}
			a.say("hermes %s (%s, %s, wazero %s)", v.Version, v.Go, v.System, v.Wazero)
			return nil
		},
	})
}

// moduleVersion is the version of a dependency that is linked in.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return "unknown"
}
