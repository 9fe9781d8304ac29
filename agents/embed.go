// Package agents holds the agents, models and providers that come with hermes, and
// embeds them for hermes init.
package agents

import (
	"embed"
	"io/fs"
)

//go:embed *
var files embed.FS

// Files are the declarations as they stand in a project's agents folder, beside the Go
// files of this package.
func Files() fs.FS { return files }
