package config

import (
	"bytes"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// TakenAway gives live without the tool and toolset blocks that next has no more, if
// all that next does is to take whole blocks away: what is left is the same, byte for
// byte and in the same order, comments and space between blocks aside. A nil next is a
// deleted file. Blocks that stay names, as [Declares] does, are left. What is left in the
// result stands where it stood in live.
func TakenAway(live, next []byte, stay map[string]bool) (rest []byte, ok bool) {
	if len(next) > maxFile {
		return nil, false // no load reads it
	}
	was, now := parse("", live), parse("", next)
	if was.body == nil || now.body == nil || len(now.body.Attributes) > 0 || len(now.body.Blocks) >= len(was.body.Blocks) {
		return nil, false
	}
	rest, left := slices.Clone(live), now.body.Blocks
	for _, b := range was.body.Blocks {
		switch {
		case len(left) > 0 && bytes.Equal(blockBytes(b, live), blockBytes(left[0], next)):
			left = left[1:]
		case stay[nameOf(b)]:
		case b.Type == "tool" || b.Type == "toolset":
			blank(blockBytes(b, rest))
		}
	}
	return rest, len(left) == 0
}

// Declares names the tools and toolsets that a file declares, as "tool.NAME" and
// "toolset.NAME", also those of a file that does not parse as far as they can be seen.
func Declares(src []byte) []string {
	p := parse("", src)
	names := slices.Clone(p.half)
	if p.body != nil {
		for _, b := range p.body.Blocks {
			names = append(names, nameOf(b))
		}
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, "tool.") && !strings.HasPrefix(name, "toolset.")
	})
}

func nameOf(b *hclsyntax.Block) string {
	return b.Type + "." + strings.Join(b.Labels, ".")
}

func blockBytes(b *hclsyntax.Block, src []byte) []byte {
	return src[b.Range().Start.Byte:b.CloseBraceRange.End.Byte]
}

// blank makes space of everything but the ends of lines.
func blank(text []byte) {
	for i, c := range text {
		if c != '\n' {
			text[i] = ' '
		}
	}
}
