package config

import (
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// OnlyRemoves says that next is live with nothing but whole tool and toolset blocks
// taken away: what is left is the same, byte for byte and in the same order, comments
// and space between blocks aside.
func OnlyRemoves(live, next []byte) bool {
	was, now := parse("", live), parse("", next)
	if was.body == nil || now.body == nil || len(now.body.Attributes) > 0 || len(now.body.Blocks) >= len(was.body.Blocks) {
		return false
	}
	left := now.body.Blocks
	for _, b := range was.body.Blocks {
		if len(left) > 0 && blockText(b, live) == blockText(left[0], next) {
			left = left[1:]
			continue
		}
		if !slices.Contains([]string{"tool", "toolset"}, b.Type) {
			return false
		}
	}
	return len(left) == 0
}

func blockText(b *hclsyntax.Block, src []byte) string {
	return string(src[b.Range().Start.Byte:b.CloseBraceRange.End.Byte])
}
