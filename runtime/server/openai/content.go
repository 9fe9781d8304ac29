package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/server/route"
)

// wirePart is one piece of a message's content, in the forms of both of OpenAI's APIs.
type wirePart struct {
	Type     string          `json:"type"`
	Text     *string         `json:"text"`
	Refusal  *string         `json:"refusal"`
	ImageURL json.RawMessage `json:"image_url"`
	Detail   *string         `json:"detail"`
}

type wireImage struct {
	URL    string  `json:"url"`
	Detail *string `json:"detail"`
}

// decodeContent reads content in any of its legal forms: a string, a list of parts,
// one part, null, or nothing.
func decodeContent(raw json.RawMessage, at string) ([]chat.Part, error) {
	if !given(raw) {
		return nil, nil
	}
	switch raw[0] {
	case '"':
		var text string
		if err := route.Unmarshal(raw, at, &text, false); err != nil {
			return nil, err
		}
		return []chat.Part{{Text: text}}, nil
	case '{':
		part, err := decodePart(raw, at)
		return []chat.Part{part}, err
	case '[':
		return decodeParts(raw, at)
	}
	return nil, route.Invalid(at, "must be a string, a list of parts, or null")
}

func decodeParts(raw json.RawMessage, at string) ([]chat.Part, error) {
	var list []json.RawMessage
	if err := route.Unmarshal(raw, at, &list, false); err != nil {
		return nil, err
	}
	parts := make([]chat.Part, 0, len(list))
	for i, element := range list {
		part, err := decodePart(element, fmt.Sprintf("%s.%d", at, i))
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

func decodePart(raw json.RawMessage, at string) (chat.Part, error) {
	if raw[0] == '"' {
		var text string
		err := route.Unmarshal(raw, at, &text, false)
		return chat.Part{Text: text}, err
	}
	var p wirePart
	if err := route.Unmarshal(raw, at, &p, false); err != nil {
		return chat.Part{}, err
	}
	switch p.Type {
	case "text", "input_text", "output_text":
		return chat.Part{Text: deref(p.Text)}, nil
	case "refusal":
		return chat.Part{Text: deref(p.Refusal)}, nil
	case "image_url", "input_image":
		return decodeImage(p, at)
	case "":
		return chat.Part{}, route.Invalid(at+".type", "required: text or image_url")
	}
	return chat.Part{}, route.Invalid(at+".type", "%q is not supported: text and image_url are", fault.Cut(p.Type, 40))
}

// decodeImage reads an image: an object with a URL, or the URL itself.
func decodeImage(p wirePart, at string) (chat.Part, error) {
	at += ".image_url"
	image := wireImage{Detail: p.Detail}
	if !given(p.ImageURL) {
		return chat.Part{}, route.Invalid(at, "required")
	}
	var err error
	if p.ImageURL[0] == '"' {
		err = route.Unmarshal(p.ImageURL, at, &image.URL, false)
	} else {
		err = route.Unmarshal(p.ImageURL, at, &image, false)
	}
	if err == nil {
		err = checkImage(image.URL, at)
	}
	if d := deref(image.Detail); err == nil && d != "" && !slices.Contains([]string{"low", "high", "auto"}, d) {
		err = route.Invalid(at+".detail", "must be low, high or auto")
	}
	return chat.Part{ImageURL: image.URL, Detail: deref(image.Detail)}, err
}

// checkImage takes data URLs of images, and https URLs.
func checkImage(raw, at string) error {
	if rest, ok := strings.CutPrefix(raw, "data:"); ok {
		kind, data, ok := strings.Cut(rest, ",")
		if !ok || !strings.HasPrefix(kind, "image/") || !strings.HasSuffix(kind, ";base64") {
			return route.Invalid(at, "a data URL must begin with data:image/TYPE;base64,")
		}
		if _, err := base64.StdEncoding.DecodeString(data); err != nil || data == "" {
			return route.Invalid(at, "the data URL does not hold valid base64")
		}
		return nil
	}
	if u, err := url.Parse(raw); err != nil || u.Scheme != "https" || u.Host == "" {
		return route.Invalid(at, "must be a data URL or an https URL")
	}
	return nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// textOf joins the text of parts, as chat.Message does.
func textOf(parts []chat.Part) string { return chat.Message{Parts: parts}.Text() }

func hasImage(parts []chat.Part) bool {
	return slices.ContainsFunc(parts, func(p chat.Part) bool { return p.ImageURL != "" })
}
