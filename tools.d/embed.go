// Package toolsd holds the tools that come with hermes, and embeds them for hermes
// init.
//
// The modules beside them are built, not kept with the sources: a binary that was built
// before them carries the declarations alone.
package toolsd

import (
	"embed"
	"io/fs"
)

//go:embed *
var files embed.FS

// Files are the declarations and modules as they stand in a project's tools.d folder,
// beside the Go files of this package.
func Files() fs.FS { return files }
