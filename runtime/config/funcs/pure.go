package funcs

import (
	"maps"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// Mark is the type of the marks this language puts on values.
type Mark string

// Sensitive marks a value that must not be shown.
const Sensitive Mark = "sensitive"

// Pure are the functions of their arguments alone, under Terraform's names where
// Terraform has them. The map is the caller's; its functions compile a pattern once.
func Pure() map[string]function.Function {
	all := map[string]function.Function{}
	for _, group := range []map[string]function.Function{numbers(), texts(), collections(), codecs(), control(), bounded(), (&patterns{}).functions()} {
		maps.Copy(all, group)
	}
	return all
}

func numbers() map[string]function.Function {
	return map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc, "log": stdlib.LogFunc,
		"max": stdlib.MaxFunc, "min": stdlib.MinFunc, "parseint": stdlib.ParseIntFunc, "pow": powFunc(),
		"signum": stdlib.SignumFunc, "sum": sumFunc(),
	}
}

func texts() map[string]function.Function {
	return map[string]function.Function{
		"chomp": stdlib.ChompFunc, "lower": stdlib.LowerFunc,
		"strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc, "title": stdlib.TitleFunc, "trim": stdlib.TrimFunc,
		"trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc,
		"upper": stdlib.UpperFunc, "formatdate": stdlib.FormatDateFunc, "timeadd": stdlib.TimeAddFunc,
		"strcontains": predicate2("string", "part", contains), "startswith": predicate2("string", "prefix", hasPrefix),
		"endswith": predicate2("string", "suffix", hasSuffix),
		"glob":     predicate2("pattern", "text", globs), "basename": text1("path", base), "dirname": text1("path", dir),
	}
}

func collections() map[string]function.Function {
	return map[string]function.Function{
		"alltrue": alltrueFunc(true), "anytrue": alltrueFunc(false), "chunklist": stdlib.ChunklistFunc,
		"coalesce": stdlib.CoalesceFunc, "coalescelist": stdlib.CoalesceListFunc, "compact": stdlib.CompactFunc,
		"concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc, "distinct": stdlib.DistinctFunc,
		"element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "index": indexFunc(), "keys": stdlib.KeysFunc,
		"length": lengthFunc(), "lookup": stdlib.LookupFunc, "merge": stdlib.MergeFunc, "one": oneFunc(),
		"range": stdlib.RangeFunc, "reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc,
		"setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc,
		"slice": stdlib.SliceFunc, "sort": stdlib.SortFunc, "values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,
		"tobool": stdlib.MakeToFunc(cty.Bool), "tonumber": stdlib.MakeToFunc(cty.Number),
		"tostring": stdlib.MakeToFunc(cty.String), "tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
		"tomap": stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)), "toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
	}
}

func codecs() map[string]function.Function {
	return map[string]function.Function{
		"base64decode": text1("text", fromBase64), "base64encode": text1("text", toBase64), "csvdecode": stdlib.CSVDecodeFunc,
		"jsondecode": guarded(stdlib.JSONDecodeFunc, "JSON", jsonNesting),
		"sha256":     text1("text", sha256Text), "urlencode": text1("text", urlencode),
		"yamldecode": guarded(yamlDecode(), "YAML", yamlNesting),
	}
}

func control() map[string]function.Function {
	return map[string]function.Function{
		"can": tryfunc.CanFunc, "try": tryfunc.TryFunc,
		"sensitive": sensitiveFunc(true), "nonsensitive": sensitiveFunc(false), "issensitive": issensitiveFunc(),
	}
}
