package dispatch_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/dispatch"
	"github.com/hermes-runtime/hermes/runtime/registry"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func namedTools(t testing.TB, names ...string) *registry.View {
	t.Helper()
	tools := make([]*registry.Tool, len(names))
	for i, n := range names {
		tools[i] = newTool(t, n, `{}`, answers(`1`))
	}
	return viewOf(t, tools...)
}

func TestFind(t *testing.T) {
	v := namedTools(t, "get_weather", "GetTime", "file-read", "a_b", "ab", "list_files", "write_file", "terminal")
	for _, test := range []struct{ in, want string }{
		{"get_weather", "get_weather"},
		{"getWeather", "get_weather"},
		{"Get-Weather", "get_weather"},
		{"get.weather", "get_weather"},
		{" get weather ", "get_weather"},
		{"GETWEATHER", "get_weather"},
		{"get_time", "GetTime"},
		{"file/read", "file-read"},
		{"file:read", "file-read"},
		// Exact beats folded; folded must be unique.
		{"ab", "ab"},
		{"a_b", "a_b"},
		{"a-b", ""},
		{"AB", ""},
		// Nothing else is repaired.
		{"get_weather_tool", ""},
		{"functions.get_weather", ""},
		{"get_weathe", ""},
		{"list_file", ""},
		{"write_files", ""},
		{"get_weather()", ""},
		{"", ""},
		{"_", ""},
		{"getWeather\x00", ""},
		// The Kelvin sign lowers to k, the long s to s, in Unicode's case folding.
		{"li\u017ft_files", ""},
		// Control tokens of chat templates.
		{"<|channel|>get_weather", "get_weather"},
		{"get_weather<|channel|>", "get_weather"},
		{"get_weather<|im_end|>\n", "get_weather"},
		{"<|a|>get_<|b|>weather", "get_weather"},
		{"getWeather<|channel|>", ""},
		{"get_weather<|channel", ""},
		{"get_weather|>", ""},
		{"<|terminal|>", ""},
		{"<|get_weather|>x", ""},
		{"<<|a|>|b|>get_weather", ""},
	} {
		got := ""
		if found, ok := dispatch.Find(v, test.in); ok {
			got = string(found.Name)
		}
		if got != test.want {
			t.Errorf("%q: got %q, want %q", test.in, got, test.want)
		}
	}
}

// TestNearNames says which names an error offers: few, and not the catalogue.
func TestNearNames(t *testing.T) {
	names := []string{"get_weather", "set_weather", "terminal"}
	for _, s := range "abcdefghijklmnopqrstuvwxyz" {
		names = append(names, "weather_"+string(s))
	}
	v := namedTools(t, names...)
	_, message := errorOf(t, newBench(t).Dispatch(t.Context(), request(v, "get_wether", `{}`)))
	if !strings.Contains(message, `"get_weather"`) {
		t.Error(message)
	}
	_, message = errorOf(t, newBench(t).Dispatch(t.Context(), request(v, "weather", `{}`)))
	if n := strings.Count(message, `weather_`); n == 0 || n > 5 {
		t.Errorf("%d names offered: %s", n, message)
	}
	o := newBench(t).Dispatch(t.Context(), request(v, strings.Repeat("é", 5000)+"\xff", `{}`))
	if len(o.Tool) > 64 || !utf8.ValidString(string(o.Tool)) || len(o.Content) > 2500 {
		t.Errorf("tool %q, content of %d bytes", o.Tool, len(o.Content))
	}
}

// FuzzFind checks that no name is repaired into a tool that is not equal to it up to
// case, separators and control tokens.
func FuzzFind(f *testing.F) {
	for _, s := range []string{"get_weather", "getWeather", "<|x|>get_weather", "<|", "|>", "<||>", "a-b", "\xff", "GET weather<|a|>", "<|a<|b|>|>ab", ""} {
		f.Add(s)
	}
	v := namedTools(f, "get_weather", "GetTime", "a_b", "ab", "write_file", "terminal")
	tokens := regexp.MustCompile(`(?s)<\|.*?\|>`)
	letters := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			if r >= 'A' && r <= 'Z' {
				return r - 'A' + 'a'
			}
			return -1
		}, s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		found, ok := dispatch.Find(v, name)
		if !ok {
			return
		}
		if exact, isTool := v.Lookup(tool.Name(name)); isTool && exact != found {
			t.Fatalf("%q is a tool, but %q was found", name, found.Name)
		}
		if !strings.Contains(name, "<|") && letters(name) != letters(string(found.Name)) {
			t.Fatalf("%q became %q", name, found.Name)
		}
		if strings.Contains(name, "<|") && tokens.MatchString(name) && strings.TrimSpace(tokens.ReplaceAllString(name, "")) != string(found.Name) {
			t.Fatalf("%q became %q", name, found.Name)
		}
	})
}
