package schema_test

import (
	"encoding/json"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/schema"
)

const weather = `{"additionalProperties":false,"properties":{"city":{"description":"City name","type":"string"},"days":{"default":1,"maximum":14,"minimum":1,"type":"integer"},"units":{"enum":["metric","imperial"],"type":"string"}},"required":["city"],"type":"object"}`

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := schema.Compile(json.RawMessage(weather)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	union := closed(`"a":{"anyOf":[{"type":"integer"},{"type":"null"}]},"b":{"oneOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]}`)
	for _, bench := range []struct{ name, schema, in string }{
		{"plain", weather, `{"city":"Oslo","days":3,"units":"metric"}`},
		{"coerced", weather, `{"city":"Oslo","days":"3","units":"metric"}`},
		{"default", weather, `{"city":"Oslo"}`},
		{"union", union, `{"a":5,"b":["x"]}`},
		{"union coerced", union, `{"a":"5","b":"x"}`},
		{"invalid", weather, `{"cty":"Oslo"}`},
	} {
		s := compile(b, bench.schema)
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = s.Parse(bench.in)
			}
		})
	}
}
